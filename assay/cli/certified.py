"""`assay prove` with certificates: writing them, and replaying them with the second solver."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from assay.cli.output import emit
from assay.core.errors import UserError
from assay.core.parser import parse
from assay.verify import bounds
from assay.verify.bounds import Proof
from assay.verify.certificate import INDEX, PROGRAM, certificates, differences, folder_name, folders, load, save
from assay.verify.recheck import Recheck
from assay.verify.recheck import recheck as replay
from assay.verify.verdict import exit_code


def certify(name: str, proof: Proof, folder: Path | None, saved: Path | None, *, recheck: bool, as_json: bool) -> int:
    """Print the proof; write its certificates to `folder`, and replay them (those in `saved`, where one is given)."""
    owed = certificates(proof, name=name)
    data: dict[str, Any] = {"name": name, **proof.to_json()}
    lines = [str(proof)]
    if folder is not None:
        where = save(owed, folder)
        data["certificates"] = {"folder": str(where), "count": len(owed.certificates), "open": list(owed.open)}
        lines.append(f"{len(owed.certificates)} certificates in {where}" + "".join(f"\n  no certificate: {x}" for x in owed.open))
    if recheck:
        place = saved if saved is None or (saved / INDEX).is_file() else saved / folder_name(name)
        replayed = replay(owed) if place is None else _saved(place, proof)
        data["recheck"] = replayed.to_json()
        data["exit_code"] = exit_code([proof.verdict.exit_code, replayed.verdict.exit_code])
        lines.append(str(replayed))
    return emit("\n".join(lines), data, as_json=as_json)


def recheck_folder(folder: Path, *, as_json: bool) -> int:
    """Replay every program's certificates in the folder."""
    found: list[Recheck] = []
    for place in folders(folder):
        try:
            program = parse((place / PROGRAM).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise UserError(f"{place / PROGRAM}: {error}") from None
        found.append(_saved(place, bounds.prove(program)))
    code = exit_code(r.verdict.exit_code for r in found)
    worst = max(found, key=lambda r: (r.verdict.exit_code == code, not r.verdict.ok))
    data = {"verdict": str(worst.verdict), "exit_code": code, "programs": [r.to_json() for r in found]}
    return emit("\n\n".join(map(str, found)), data, as_json=as_json)


def _saved(place: Path, proof: Proof) -> Recheck:
    """The saved certificates, which must be of this program and say all that it owes."""
    saved = load(place, proof.program)
    return replay(saved, faults=differences(saved, certificates(proof, name=saved.name)))
