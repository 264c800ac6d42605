#!/usr/bin/env python3
"""Rebuilds the shipped training text and tokenizer. Usage: build.py DEB [VOCAB_SIZE]

DEB is Debian's r-cran-janeaustenr package (`apt-get download r-cran-janeaustenr`). Needs `dpkg-deb`, `zstd` and the Python
package `tokenizers`. Output is the same bytes for the same package and library versions. See README.md for provenance.
"""

import json
import re
import struct
import subprocess
import sys
import tempfile
import zlib
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

HERE = Path(__file__).parent
NOVELS = ["Sense and Sensibility", "Pride and Prejudice", "Northanger Abbey", "Persuasion"]
SPECIALS = ["<|begin_of_text|>", "<|end_of_text|>"]
CHAPTER = re.compile(r"^chapter\s+(\d+|[ivxlc]+)\.?$", re.IGNORECASE)


def lines_of_novel(rdb: bytes, title: str) -> list[str]:
    """The character vector of the database entry whose first line is `title` in capitals."""
    at = 0
    while at < len(rdb):
        start = rdb.index(b"\x78", at)  # a zlib stream; each entry is a 4-byte length and then its stream
        engine = zlib.decompressobj()
        data = engine.decompress(rdb[start:])
        at = len(rdb) - len(engine.unused_data)
        lines = strings(data)
        if lines and lines[0].upper().startswith(title.upper()):
            return lines
    sys.exit(f"no novel called {title!r} in the package")


def strings(data: bytes) -> list[str]:
    """All strings of an R object in XDR serialization, when that object is one character vector."""
    at = data.index(struct.pack(">i", 16)) + 4  # STRSXP
    (count,) = struct.unpack_from(">i", data, at)
    at += 4
    out = []
    for _ in range(count):
        flags, size = struct.unpack_from(">ii", data, at)
        if flags & 0xFF != 9 or size < 0:  # CHARSXP
            return []
        out.append(data[at + 8 : at + 8 + size].decode("utf-8"))
        at += 8 + size
    return out


def chapters(lines: list[str]) -> list[str]:
    """One text per chapter: the heading is dropped, paragraphs are unwrapped, an empty line stays between them."""
    found, paragraph = [], []
    for line in [*lines, ""]:
        line = line.strip()
        if CHAPTER.match(line):
            found.append([])
        elif line and found:
            paragraph.append(line)
        elif paragraph:
            found[-1].append(" ".join(paragraph))
            paragraph = []
    return ["\n\n".join(chapter) for chapter in found if chapter]


def train(texts: list[str], vocab_size: int) -> Tokenizer:
    """A byte-level BPE without a prefix space."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=SPECIALS,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def main() -> None:
    package = Path(sys.argv[1])
    vocab_size = int(sys.argv[2]) if len(sys.argv) > 2 else 288
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["dpkg-deb", "-x", package, folder], check=True)
        rdb = (Path(folder) / "usr/lib/R/site-library/janeaustenr/data/Rdata.rdb").read_bytes()
    texts = [text for title in NOVELS for text in chapters(lines_of_novel(rdb, title))]

    data = HERE / "c4_test" / "data.json"
    data.parent.mkdir(exist_ok=True)
    data.write_text("".join(json.dumps({"text": text}, ensure_ascii=False) + "\n" for text in texts))
    subprocess.run(["zstd", "-q", "--ultra", "-22", "-f", "--rm", data], check=True)

    tokenizer = train(texts, vocab_size)
    out = HERE / "tokenizer"
    out.mkdir(exist_ok=True)
    tokenizer.save(str(out / "tokenizer.json"), pretty=False)
    config = {"bos_token": SPECIALS[0], "eos_token": SPECIALS[1]}
    (out / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n")
    num_tokens = sum(len(tokenizer.encode(text).ids) + 2 for text in texts)
    print(f"{len(texts)} records, {sum(map(len, texts))} characters, {num_tokens} tokens of {tokenizer.get_vocab_size()}")


if __name__ == "__main__":
    main()
