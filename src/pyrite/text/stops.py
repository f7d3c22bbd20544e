"""Control tokens that end an answer, whichever one a model's file calls its eos."""

from __future__ import annotations

# They end a turn or a text.
STOP_NAMES = (
    "<|im_end|>",
    "<|endoftext|>",
    "<end_of_turn>",
    "<eos>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|end_of_text|>",
    "<|end|>",
    "<|eot|>",
    "<|return|>",
    "<|call|>",
    "<|user_end|>",
    "<|END_OF_TURN_TOKEN|>",
    "<|end_of_role|>",
    "<｜end▁of▁sentence｜>",
    "<EOT>",
    "</s>",
    "<|observation|>",
    "<start_function_response>",
    "<|tool_response>",
)


def stop_names(*, in_channels: bool) -> set[str]:
    """`in_channels`: an answer is several messages, and "<|end|>" ends one of them."""
    return {name for name in STOP_NAMES if not (in_channels and name == "<|end|>")}
