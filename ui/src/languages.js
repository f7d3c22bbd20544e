// Grammars for highlight.js that are a tenth of its own: enough for colours, for many languages.
// The family of C is one grammar with other words.

const words = (text) => text.split(' ');

// Comments, strings, numbers, names that are called, names that are types.
const family = (keywords, { types = '', more = [], aliases = [] } = {}) => (hljs) => ({
  aliases,
  keywords: {
    keyword: words(keywords),
    literal: words('true false null nil nullptr None'),
    type: types ? words(types) : [],
  },
  contains: [
    hljs.C_LINE_COMMENT_MODE,
    hljs.C_BLOCK_COMMENT_MODE,
    ...more,
    hljs.QUOTE_STRING_MODE,
    { scope: 'string', match: /'(?:\\.[^']{0,8}|[^\\'\n])'/ },
    { scope: 'number', match: /\b(?:0[xb][\da-f_]+|\d[\d_]*(?:\.[\d_]+)?(?:e[-+]?\d+)?)[a-z\d]*\b/i },
    { scope: 'type', match: /\b[A-Z]\w*[a-z]\w*\b(?!\()/ },
    { scope: 'title', match: /\b[a-zA-Z_]\w*(?=\s?(?:\(|!\())/, keywords: words(keywords) },
  ],
});

const NUMBERS = 'int long short float double char bool boolean byte void';
const FLOW = 'if else for while do switch case default break continue return';
const OBJECTS = 'class enum interface new this super public private protected static final abstract try catch finally throw';

const directive = { scope: 'meta', match: /^[ \t]*#\s*\w.*/m };
const attribute = { scope: 'meta', match: /#!?\[[^\]\n]*\]|@\w+/ };
const raw = { scope: 'string', begin: /`/, end: /`/ };

export const cpp = family(
  `${FLOW} ${OBJECTS} goto sizeof struct union typedef extern const volatile inline register auto namespace using template typename operator friend virtual override explicit constexpr noexcept mutable delete co_await co_yield co_return concept requires`,
  { types: `${NUMBERS} unsigned signed size_t wchar_t uint8_t int8_t uint16_t int16_t uint32_t int32_t uint64_t int64_t`, more: [directive], aliases: ['c', 'h', 'hpp', 'cc', 'cxx', 'c++', 'cuda', 'metal'] },
);

export const java = family(
  `${FLOW} ${OBJECTS} import package extends implements throws instanceof synchronized transient volatile record sealed permits var yield assert`,
  { types: NUMBERS, more: [attribute] },
);

export const csharp = family(
  `${FLOW} ${OBJECTS} using namespace struct record foreach in is as out ref var async await get set sealed override virtual readonly const delegate event lock params yield where`,
  { types: `${NUMBERS} string object decimal uint ulong`, aliases: ['cs', 'c#'] },
);

export const kotlin = family(
  `${FLOW} ${OBJECTS} fun val var when is in as object companion data sealed override open internal suspend import package by lateinit inline typealias init constructor`,
  { more: [attribute], aliases: ['kt', 'scala'] },
);

export const swift = family(
  `${FLOW} ${OBJECTS} func let var guard in is as struct protocol extension import self init deinit override mutating throws rethrows async await some any where inout defer repeat fallthrough nil`,
  { more: [attribute] },
);

export const go = family(
  `${FLOW} func package import var const type struct interface map chan go defer select range fallthrough goto`,
  { types: 'int int8 int16 int32 int64 uint uint8 uint16 uint32 uint64 float32 float64 string bool byte rune error any', more: [raw], aliases: ['golang'] },
);

export const rust = family(
  `${FLOW} fn let mut pub use mod crate impl trait struct enum match loop in as ref move self Self super where async await dyn unsafe const static type extern`,
  { types: 'i8 i16 i32 i64 i128 isize u8 u16 u32 u64 u128 usize f32 f64 bool char str', more: [attribute, { scope: 'symbol', match: /'[a-z_]\w*(?!')/ }], aliases: ['rs'] },
);

export const php = family(
  `${FLOW} ${OBJECTS} function fn echo print use namespace extends implements trait foreach as require include const global match instanceof elseif`,
  { more: [{ scope: 'variable', match: /\$\w+/ }, { scope: 'comment', match: /#.*/ }] },
);

export const sql = (hljs) => ({
  case_insensitive: true,
  keywords: {
    keyword: words('select from where and or not in is like between exists join inner left right full outer cross on using group by order having limit offset union all distinct as asc desc insert into values update set delete create table view index drop alter add column primary key foreign references unique check default constraint with recursive case when then else end returning begin commit rollback grant revoke if over partition window explain'),
    literal: words('true false null'),
    type: words('int integer bigint smallint serial text varchar char boolean numeric decimal real float double date time timestamp timestamptz interval json jsonb uuid blob'),
  },
  contains: [
    hljs.COMMENT('--', '$'),
    hljs.C_BLOCK_COMMENT_MODE,
    { scope: 'string', begin: /'/, end: /'/, contains: [{ match: /''/ }] },
    hljs.NUMBER_MODE,
    { scope: 'title', match: /\b\w+(?=\()/, keywords: words('in values and or not on using exists over') },
  ],
});

export const css = (hljs) => ({
  aliases: ['scss', 'less'],
  case_insensitive: true,
  contains: [
    hljs.C_BLOCK_COMMENT_MODE,
    { scope: 'comment', match: /(?<!:)\/\/.*/ },
    hljs.QUOTE_STRING_MODE,
    hljs.APOS_STRING_MODE,
    { scope: 'keyword', match: /@[\w-]+|!important/ },
    { scope: 'variable', match: /--[\w-]+|\$[\w-]+/ },
    { scope: 'attribute', match: /[\w-]+(?=\s*:\s)/ },
    { scope: 'number', match: /#[\da-f]{3,8}\b|-?\b\d+(?:\.\d+)?(?:[a-z]+|%)?/ },
    { scope: 'selector-class', match: /[.#][a-z_][\w-]*/ },
    { scope: 'built_in', match: /\b[\w-]+(?=\()|::?[a-z-]+/ },
  ],
});

export const bash = (hljs) => ({
  aliases: ['sh', 'zsh', 'shell', 'console', 'shellsession', 'dockerfile', 'makefile'],
  keywords: {
    keyword: words('if then else elif fi for while until in do done case esac function select return local export set unset source exec exit trap FROM RUN COPY ENV CMD ENTRYPOINT WORKDIR EXPOSE'),
    built_in: words('cd echo printf read test eval alias sudo pip npm git docker curl cat grep sed awk make'),
  },
  contains: [
    { scope: 'comment', match: /(?<=^|\s)#.*/m },
    { scope: 'string', begin: /"/, end: /"/, contains: [{ match: /\\./ }, { scope: 'variable', match: /\$(?:\{[^}\n]*\}|\w+)/ }] },
    { scope: 'string', begin: /'/, end: /'/ },
    { scope: 'variable', match: /\$(?:\{[^}\n]*\}|[\w?!@*#-]+)/ },
    { scope: 'attr', match: /(?<=\s)--?[a-zA-Z][\w-]*/ },
    { scope: 'number', match: /(?<=\s)\d+(?:\.\d+)?\b/ },
  ],
});
