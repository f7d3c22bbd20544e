// Server-sent events from bytes that may be cut anywhere: inside a character, a line or a pair of
// line ends. Knows no JSON and no network.

export class EventReader {
  #decoder = new TextDecoder();
  #text = ''; // what has no line end yet
  #data = []; // data lines of the event that is being read

  // The data of every event that these bytes complete.
  feed(bytes) {
    return this.#read(this.#decoder.decode(bytes, { stream: true }), false);
  }

  // The bytes have ended; an event whose empty line is missing counts all the same.
  end() {
    const events = this.#read(this.#decoder.decode(), true);
    if (this.#data.length > 0) events.push(this.#take());
    return events;
  }

  #read(text, last) {
    const events = [];
    this.#text += text;
    const lines = /([^\r\n]*)(\r\n|\n|\r)/y;
    let begin = 0;
    for (let line = lines.exec(this.#text); line; line = lines.exec(this.#text)) {
      // A carriage return at the very end may be the first half of a pair.
      if (!last && line[2] === '\r' && lines.lastIndex === this.#text.length) break;
      begin = lines.lastIndex;
      this.#line(line[1], events);
    }
    this.#text = this.#text.slice(begin);
    if (last && this.#text) this.#line(this.#text, events);
    return events;
  }

  #line(line, events) {
    if (line === '') {
      if (this.#data.length > 0) events.push(this.#take());
    } else if (line === 'data' || line.startsWith('data:')) {
      this.#data.push(line.slice(5).replace(/^ /, ''));
    } // comments and other fields mean nothing here
  }

  #take() {
    const data = this.#data.join('\n');
    this.#data = [];
    return data;
  }
}
