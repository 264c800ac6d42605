#!/usr/bin/env python3
"""Makes the tokenizer folders here and expected.json: ids from the Python package `tokenizers`, special tokens as torchtitan adds them."""

import json
from pathlib import Path

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors, trainers

HERE = Path(__file__).parent
SHIPPED = HERE.parents[2] / "assets" / "tokenizer"
TEXTS = [
    "",
    " ",
    "Hello world",
    "  two  spaces\n\nand\ttabs\r\n",
    "It is a truth universally acknowledged, that a single man's fortune isn't $1,234.56!",
    "naïve café \u2014 \u201cquoted\u201d \u4e16\u754c \U0001f600 e\u0301",
    "a<|begin_of_text|>b<|end_of_text|>c <|end_of_text|> d",
    "x <pad> y<mask>z [UNK]",
    "\u0000\u0007",
    "the " * 40,
]
CORPUS = ["the cat sat on the mat and the hat", "a man and a cat and the mat", "It is the truth"] * 20


def write(folder: str, name: str, content) -> None:
    path = HERE / folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content, ensure_ascii=False) + "\n")


def trained() -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(
        CORPUS, trainers.BpeTrainer(vocab_size=280, initial_alphabet=alphabet, show_progress=False)
    )
    return tokenizer


def make_folders() -> None:
    # Begins texts by itself; tokens as objects, with their own stripping rules, listed by id.
    llama = trained()
    llama.add_special_tokens(["<|begin_of_text|>", "<|end_of_text|>"])
    llama.post_processor = processors.TemplateProcessing(
        single="<|begin_of_text|> $A", special_tokens=[("<|begin_of_text|>", llama.token_to_id("<|begin_of_text|>"))]
    )
    write("begins", "tokenizer.json", llama.to_str())
    write("begins", "tokenizer_config.json", {
        "bos_token": {"content": "<|begin_of_text|>", "__type": "AddedToken"},
        "eos_token": "<|end_of_text|>",
        "added_tokens_decoder": {
            "128000": {"content": "<|begin_of_text|>", "lstrip": False, "normalized": False, "special": True},
            "128001": {"content": "<|end_of_text|>", "lstrip": True, "rstrip": True, "normalized": False, "special": True},
            "128004": {"content": "<pad>", "lstrip": False, "normalized": True, "special": True},
        },
    })
    # No merges and printable ASCII only, as the tokenizer of torchtitan's own tests: all else is dropped.
    vocab = {chr(byte): byte for byte in range(33, 127)}
    ascii_only = Tokenizer(models.BPE(vocab=vocab, merges=[]))
    ascii_only.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    write("ascii", "tokenizer.json", ascii_only.to_str())
    write("ascii", "tokenizer_config.json", {
        "added_tokens_decoder": {"128001": {"content": "<|end_of_text|>"}, "128000": {"content": "<|begin_of_text|>"}},
        "bos_token": "<|begin_of_text|>", "eos_token": "<|end_of_text|>", "mask_token": "<mask>",
    })
    # The older pair of files; one token begins and ends texts.
    model = json.loads(trained().to_str())["model"]
    write("pair", "vocab.json", {**model["vocab"], "<|end_of_text|>": len(model["vocab"])})
    write("pair", "merges.txt", "#version: 0.2\n" + "".join(f"{a} {b}\n" for a, b in model["merges"]))
    write("pair", "tokenizer_config.json", {"bos_token": "<|end_of_text|>", "eos_token": "<|end_of_text|>"})
    # A word list, without a configuration.
    write("words", "vocab.txt", "[UNK]\nHello world\n\n<pad>\n")


def load(folder: Path) -> Tokenizer:
    if (folder / "tokenizer.json").exists():
        return Tokenizer.from_file(str(folder / "tokenizer.json"))
    if (folder / "vocab.json").exists():
        vocab = json.loads((folder / "vocab.json").read_text())
        merges = [tuple(line.split()) for line in (folder / "merges.txt").read_text().splitlines() if line[0] != "#"]
        tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=merges))
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.post_processor = processors.ByteLevel(trim_offsets=True)
        return tokenizer
    vocab = {line.strip(): i for i, line in enumerate((folder / "vocab.txt").read_text().splitlines()) if line.strip()}
    return Tokenizer(models.WordLevel(vocab=vocab, unk_token="[UNK]"))


def text_of(token) -> str | None:
    return token["content"] if isinstance(token, dict) else token


def expected(folder: Path) -> dict:
    tokenizer = load(folder)
    path = folder / "tokenizer_config.json"
    config = json.loads(path.read_text()) if path.exists() else {}
    added = [config[f"{role}_token"] for role in ("bos", "eos", "pad", "unk", "sep", "cls", "mask") if f"{role}_token" in config]
    added += config.get("added_tokens_decoder", {}).values()
    tokens = []
    for token in added:
        if isinstance(token, dict):
            flags = {key: token.get(key, False) for key in ("single_word", "lstrip", "rstrip")}
            normalized, special = token.get("normalized", True), token.get("special", True)
            tokens.append(AddedToken(token["content"], normalized=normalized, special=special, **flags))
        else:
            tokens.append(AddedToken(token, special=True))
    tokenizer.add_special_tokens(tokens)
    bos, eos = text_of(config.get("bos_token")), text_of(config.get("eos_token"))
    bos_id = tokenizer.token_to_id(bos) if bos else None
    eos_id = tokenizer.token_to_id(eos) if eos and eos != bos else None
    empty = tokenizer.encode("").ids
    before = [bos_id] if bos_id is not None and bos_id not in empty else []
    after = [eos_id] if eos_id is not None and eos_id not in empty else []
    ids = {text: before + tokenizer.encode(text).ids + after for text in TEXTS}
    return {"num_tokens": tokenizer.get_vocab_size(), "cases": [{"text": text, "ids": ids[text]} for text in TEXTS]}


def main() -> None:
    make_folders()
    result = {name: expected(HERE / name) for name in ("begins", "ascii", "pair", "words")}
    result["shipped"] = expected(SHIPPED)
    (HERE / "expected.json").write_text(json.dumps(result, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
