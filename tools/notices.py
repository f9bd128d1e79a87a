#!/usr/bin/env python3
"""Prints the licences of the libraries in the command: `python3 tools/notices.py [--package NAME]`.

Name, version and licence of each library that `remuda` links, from `cargo metadata`, and the texts
of its licence files, each different text once. Exits with 1 if a library names no licence.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

STEMS = ("license", "licence", "copying", "copyright", "notice", "unlicense")
"""How the names of licence files begin."""


def metadata(cargo: str) -> dict[str, Any]:
    """What cargo knows of the workspace and of the libraries for this host."""
    host = subprocess.run([cargo, "-vV"], check=True, capture_output=True, text=True).stdout
    target = next(line.split()[1] for line in host.splitlines() if line.startswith("host:"))
    command = [cargo, "metadata", "--format-version=1", "--locked", f"--filter-platform={target}"]
    answer = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return dict(json.loads(answer))


def linked(about: dict[str, Any], name: str) -> list[dict[str, Any]]:
    """The packages that `name` links, without those of the workspace, in order of their names."""
    packages = {package["id"]: package for package in about["packages"]}
    nodes = {node["id"]: node for node in about["resolve"]["nodes"]}
    own = set(about["workspace_members"])
    waiting = [id for id in own if packages[id]["name"] == name]
    if not waiting:
        sys.exit(f"notices: {name}: the workspace has no such package")
    seen = set(waiting)
    while waiting:
        for dependency in nodes[waiting.pop()]["deps"]:
            # Of kind null are those that are linked; others only build or test.
            is_linked = any(kind["kind"] is None for kind in dependency["dep_kinds"])
            if is_linked and dependency["pkg"] not in seen:
                seen.add(dependency["pkg"])
                waiting.append(dependency["pkg"])
    return sorted((packages[id] for id in seen - own), key=lambda it: (it["name"], it["version"]))


def texts(package: dict[str, Any]) -> list[str]:
    """The texts of the licence files of a package."""
    folder = Path(package["manifest_path"]).parent
    files = [path for path in folder.iterdir() if path.name.lower().startswith(STEMS)]
    return [
        path.read_text(encoding="utf-8", errors="replace").strip()
        for path in sorted(files)
        if path.is_file()
    ]


def main() -> None:
    """Prints all notices."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--package", default="remuda", help="whose libraries; default: %(default)s")
    parser.add_argument("--cargo", default="cargo", help="the cargo to ask; default: %(default)s")
    options = parser.parse_args()
    packages = linked(metadata(options.cargo), options.package)
    unnamed = [it["name"] for it in packages if not (it["license"] or it["license_file"])]
    if unnamed:
        sys.exit(f"notices: no licence is named by {', '.join(unnamed)}")
    print("Libraries in the command, each under the licence that it names:\n")
    users: dict[str, list[str]] = {}
    for package in packages:
        named = f"{package['name']} {package['version']}"
        print(f"{named}: {package['license'] or package['license_file']}")
        for text in texts(package):
            users.setdefault(text, []).append(named)
    for text, names in users.items():
        print(f"\n{'=' * 80}\n{', '.join(names)}:\n\n{text}")


if __name__ == "__main__":
    main()
