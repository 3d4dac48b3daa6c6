"""Generated projects in which it is known by construction where a symbol is: 62 files and more, for each language.

The same project made with another name for the symbol is the ground truth for renaming it. Decoys have the same name
and are something else: a method, a string, a comment. Lines with an emoji before the name catch wrong columns.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

USERS = 61


@dataclass(frozen=True)
class Project:
    files: dict[str, str]
    symbol: str
    definition: tuple[str, int]  # path, line from 1
    references: frozenset[tuple[str, int]]  # with the definition; none is twice in a line

    def write(self, root: Path) -> Path:
        for name, text in self.files.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text.replace("@ROOT@", str(root.resolve())), "utf-8")
        return root

    @property
    def reference_files(self) -> set[str]:
        return {path for path, _ in self.references}


def _project(files: dict[str, str], symbol: str, home: str, decoy: str) -> Project:
    """Marks `«»` around the symbol say where it is meant."""
    references, definition = set(), (home, 0)
    plain = {}
    for path, text in files.items():
        for number, line in enumerate(text.split("\n"), 1):
            if "«" in line:
                assert line.count("«") == 1
                references.add((path, number))
                if path == home and not definition[1]:
                    definition = (path, number)
        plain[path] = text.replace("«S»", symbol).replace("@DECOY@", decoy)
    return Project(plain, symbol, definition, frozenset(references))


def python_project(symbol: str = "make_account", decoy: str = "make_account") -> Project:
    files = {
        "pyproject.toml": '[project]\nname = "bank"\nversion = "1"\n',
        "bank/__init__.py": "",
        "bank/models.py": (
            "from __future__ import annotations\n\n\nclass Account:\n"
            "    def __init__(self, name: str) -> None:\n"
            "        self.name = name\n        self.number = len(name)\n\n\n"
            'def «S»(name: str) -> Account:\n    """Opens an account: @DECOY@ is its name in prose."""\n'
            "    return Account(name)\n"
        ),
        "bank/decoy.py": (
            "class Factory:\n    def @DECOY@(self, name: str) -> str:\n        return name\n\n\n"
            'TEXT = "@DECOY@"\nOTHER = Factory().@DECOY@("x")\n'
        ),
    }
    for n in range(USERS):
        folder = f"bank/part_{n % 7}"
        files.setdefault(f"{folder}/__init__.py", "")
        files[f"{folder}/user_{n:02}.py"] = (
            f"from bank.models import «S»\n\n\ndef run_{n:02}() -> int:\n"
            f'    label = "😀 {n}"; account = «S»(label)  # @DECOY@\n    return account.number\n'
        )
    return _project(files, symbol, "bank/models.py", decoy)


def typescript_project(symbol: str = "makeAccount", decoy: str = "makeAccount") -> Project:
    options = {"strict": True, "target": "es2022", "module": "nodenext", "moduleResolution": "nodenext", "noEmit": True}
    files = {
        "tsconfig.json": json.dumps({"compilerOptions": options, "include": ["src"]}),
        "package.json": '{"name": "bank", "version": "1.0.0", "type": "commonjs"}\n',
        "src/models.ts": (
            "export interface Account {\n  name: string;\n  number: number;\n}\n\n"
            "/** Opens an account: @DECOY@ is its name in prose. */\n"
            "export function «S»(name: string): Account {\n  return { name, number: name.length };\n}\n"
        ),
        "src/decoy.ts": (
            "export class Factory {\n  @DECOY@(name: string): string {\n    return name;\n  }\n}\n"
            'export const text = "@DECOY@";\nexport const other = new Factory().@DECOY@("x");\n'
        ),
    }
    for n in range(USERS):
        files[f"src/part_{n % 7}/user_{n:02}.ts"] = (
            f'import {{ «S» }} from "../models";\n\nexport function run{n:02}(): number {{\n'
            f'  const label = "😀 {n}"; const account = «S»(label); // @DECOY@\n  return account.number;\n}}\n'
        )
    return _project(files, symbol, "src/models.ts", decoy)


def c_project(symbol: str = "make_account", decoy: str = "make_account") -> Project:
    files = {
        "include/models.h": (
            "#ifndef MODELS_H\n#define MODELS_H\nstruct account { int number; };\n"
            "/* Opens an account: @DECOY@ is its name in prose. */\nstruct account «S»(int number);\n#endif\n"
        ),
        "src/models.c": (
            '#include "models.h"\n\nstruct account «S»(int number) {\n'
            "    struct account made = {number};\n    return made;\n}\n"
        ),
        "src/decoy.c": (
            "struct factory { int @DECOY@; };\n"
            'const char *text = "@DECOY@";\n'
            "int other(struct factory *f) { return f->@DECOY@; }\n"
        ),
    }
    for n in range(USERS):
        files[f"src/part_{n % 7}/user_{n:02}.c"] = (
            f'#include "models.h"\n\nint first_{n:02}(void) {{\n'
            f'    const char *label = "😀 {n}"; struct account a = «S»((int)label[0]); /* @DECOY@ */\n'
            f"    return a.number;\n}}\n\nint second_{n:02}(void) {{\n    return «S»({n}).number;\n}}\n"
        )
    units = [name for name in files if name.endswith(".c")]
    words = ["cc", "-Iinclude", "-std=c11", "-c"]
    commands = [{"directory": "@ROOT@", "file": name, "arguments": [*words, name]} for name in units]
    files["compile_commands.json"] = json.dumps(commands)
    return _project(files, symbol, "src/models.c", decoy)


PROJECTS: dict[str, Callable[..., Project]] = {
    "python": python_project,
    "typescript": typescript_project,
    "c": c_project,
}
