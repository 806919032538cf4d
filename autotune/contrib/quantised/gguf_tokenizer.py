"""Conversion of a GGUF file's tokenizer to the JSON format of package `tokenizers`.

A byte-level BPE (``gpt2``) has its merges in the file. For SentencePiece (``llama``) they follow from the scores: of
all pairs of tokens whose concatenation is a token, the one with the highest score is merged first.
"""

import json
from collections.abc import Sequence
from typing import Any

from autotune.contrib.quantised.gguf_file import GGUFFile
from autotune.core.printable import one_line
from payload.importers.linalg import UnsupportedError

KEY = "tokenizer.ggml"
MOST_LETTERS = 4096  # characters per token: every split position of a token is tried
CONTROL, ADDED, BYTE = 3, 4, 6  # GGML's token types
SPACE = "\u2581"  # replaces a space in SentencePiece
WORDS = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
ENDINGS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|"
REST = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
# Pre-tokenizer patterns, which split a text before pairs are merged, by the file's name of them.
CUTS = {
    "gpt-2": (WORDS,),
    "smollm": (r"\p{N}", WORDS),
    "qwen2": (ENDINGS + r"\p{N}" + REST,),
    "llama-bpe": (ENDINGS + r"\p{N}{1,3}" + REST,),
}
ENDS = ("eos", "eot", "eom")  # end of a text, of a chat turn, of a message that calls a tool
WHOLE = ("llama-bpe",)  # pre-tokenizers whose words are not merged if they are tokens; texts start with a BOS token


class OtherTokenizerError(UnsupportedError):
    """Raised for a tokenizer of an unsupported type, with which the model can still be imported."""


def write_tokenizer(file: GGUFFile) -> str:
    """Return a file's tokenizer as JSON; empty if it has none.

    Raises:
        OtherTokenizerError: The tokenizer has an unsupported type.
        UnsupportedError: Parts of it are inconsistent.
    """
    model_type = file.fields.get(f"{KEY}.model")
    if model_type is None or f"{KEY}.tokens" not in file.lists:
        return ""
    tokens, kinds = file.texts(f"{KEY}.tokens"), file.numbers(f"{KEY}.token_type")
    if len(set(tokens)) < len(tokens):
        raise UnsupportedError(f"{KEY}.tokens must be different texts, some are the same; convert it again")
    if (longest := max(map(len, tokens), default=0)) > MOST_LETTERS:
        raise UnsupportedError(
            f"{KEY}.tokens must have at most {MOST_LETTERS} letters each, one has {longest}; convert it again"
        )
    if kinds and len(kinds) != len(tokens):
        raise UnsupportedError(
            f"{KEY}.token_type must have {len(tokens)} numbers, it has {len(kinds)}; convert it again"
        )
    if model_type == "gpt2":
        tokenizer = of_bytes(file, tokens)
    elif model_type == "llama":
        tokenizer = of_pieces(file, tokens)
    else:
        raise OtherTokenizerError(
            f"{KEY}.model must be one of gpt2, llama, it is {one_line(str(model_type))[:50]!r}; "
            "give a tokenizer.json by --tokenizer, or token ids"
        )
    tokenizer["added_tokens"] = [
        added(number, text, special=kinds[number] == CONTROL)
        for number, text in enumerate(tokens)
        if kinds and kinds[number] in (CONTROL, ADDED)
    ]
    tokenizer |= {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "post_processor": first_token(file, model_type, tokens),
    }
    return json.dumps(tokenizer, ensure_ascii=False)


def ends_of(file: GGUFFile, vocab: int) -> list[int]:
    """Return the ids of the tokens that end a text."""
    ids = (file.fields.get(f"{KEY}.{name}_token_id") for name in ENDS)
    return sorted({end for end in ids if isinstance(end, int) and 0 <= end < vocab})


def of_bytes(file: GGUFFile, tokens: Sequence[str]) -> dict[str, Any]:
    """Return the tokenizer of a byte-level BPE with the file's merges."""
    cut = str(file.fields.get(f"{KEY}.pre", "gpt-2"))
    if cut not in CUTS:
        raise OtherTokenizerError(
            f"{KEY}.pre must be one of {', '.join(CUTS)}, it is {one_line(cut)[:50]!r}; "
            "give a tokenizer.json by --tokenizer, or token ids"
        )
    merges = [tuple(text.split(" ")) for text in file.texts(f"{KEY}.merges")]
    vocabulary = set(tokens)
    if not merges or any(len(pair) != 2 or not vocabulary.issuperset((*pair, "".join(pair))) for pair in merges):
        raise UnsupportedError(f"{KEY}.merges must be pairs of tokens that make tokens, they are not; convert it again")
    model = pairs(tokens, [list(pair) for pair in merges]) | {"ignore_merges": cut in WHOLE}
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    cuts = [{"type": "Split", "pattern": {"Regex": r}, "behavior": "Isolated", "invert": False} for r in CUTS[cut]]
    return {
        "normalizer": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [*cuts, level]},
        "decoder": level,
        "model": model,
    }


def of_pieces(file: GGUFFile, tokens: Sequence[str]) -> dict[str, Any]:
    """Return the tokenizer of a SentencePiece model, with merges ordered by score."""
    scores = file.numbers(f"{KEY}.scores")
    if len(scores) != len(tokens):
        raise UnsupportedError(f"{KEY}.scores must have {len(tokens)} numbers, it has {len(scores)}; convert it again")
    number_of = {text: number for number, text in enumerate(tokens)}
    candidates = []
    for number, text in enumerate(tokens):
        for middle in range(1, len(text)):
            left, right = text[:middle], text[middle:]
            if left in number_of and right in number_of:
                candidates.append((-scores[number], number_of[left], number_of[right], left, right))
    unknown = file.fields.get(f"{KEY}.unknown_token_id", 0)
    model = pairs(tokens, [[left, right] for *_, left, right in sorted(candidates)])
    model |= {"byte_fallback": True, "fuse_unk": True}
    if isinstance(unknown, int) and 0 <= unknown < len(tokens):
        model["unk_token"] = tokens[unknown]
    spaces = {"type": "Replace", "pattern": {"String": " "}, "content": SPACE}
    has_prefix = file.fields.get(f"{KEY}.add_space_prefix", True)
    starts = [{"type": "Prepend", "prepend": SPACE}] if has_prefix else []
    back = {"type": "Replace", "pattern": {"String": SPACE}, "content": " "}
    return {
        "normalizer": {"type": "Sequence", "normalizers": [*starts, spaces]},
        "pre_tokenizer": None,
        "decoder": {"type": "Sequence", "decoders": [back, {"type": "ByteFallback"}, {"type": "Fuse"}]},
        "model": model,
    }


def pairs(tokens: Sequence[str], merges: list[list[str]]) -> dict[str, Any]:
    """Return a BPE model of these merges."""
    return {
        "type": "BPE",
        "dropout": None,
        "unk_token": None,
        "continuing_subword_prefix": None,
        "end_of_word_suffix": None,
        "fuse_unk": False,
        "byte_fallback": False,
        "ignore_merges": False,
        "vocab": {text: number for number, text in enumerate(tokens)},
        "merges": merges,
    }


def added(number: int, text: str, *, special: bool) -> dict[str, Any]:
    """Return the entry of an added token, which is never the result of a merge."""
    plain = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    return {"id": number, "content": text, "special": special, **plain}


def first_token(file: GGUFFile, kind: str, tokens: Sequence[str]) -> dict[str, Any] | None:
    """Return the post-processor that prepends the BOS token, if the file asks for it."""
    number = file.fields.get(f"{KEY}.bos_token_id")
    usual = kind == "llama" or file.fields.get(f"{KEY}.pre") in WHOLE  # default if the key is missing
    if not file.fields.get(f"{KEY}.add_bos_token", usual) or not isinstance(number, int):
        return None
    if not 0 <= number < len(tokens):
        raise UnsupportedError(f"{KEY}.bos_token_id must be a token, it is {number} of {len(tokens)}; convert it again")
    text = tokens[number]
    first, rest = {"SpecialToken": {"id": text, "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}
    second = {"Sequence": {"id": "B", "type_id": 1}}
    special = {text: {"id": text, "ids": [number], "tokens": [text]}}
    return {
        "type": "TemplateProcessing",
        "single": [first, rest],
        "pair": [first, rest, second],
        "special_tokens": special,
    }
