"""``survives list``: the words that everything else is written in."""

from __future__ import annotations

import click

from model.contracts import CHOICES


@click.command("list")
@click.argument("what", type=click.Choice(["actions", "claims", "contracts", "mistakes", "properties", "witnesses"]))
def list_(what: str) -> None:
    """List the words: actions, claims, contracts, mistakes, properties or witnesses."""
    from model.actions import ALPHABET
    from model.properties import PROPERTIES, WITNESSES

    if what == "contracts":
        for name, choices in CHOICES.items():
            click.echo(f"{name}={'|'.join(choices)}")
    elif what == "actions":
        for verb, form in ALPHABET.items():
            words = [str(verb), "WORKER" * form.worker, "KEY" * form.key, form.choice.upper()]
            click.echo(f"{' '.join(filter(None, words)):<32} {form.says}")
    elif what == "claims":
        from model.claims import CLAIMS

        for claim in CLAIMS.values():
            more = f" [{'|'.join(claim.choices)}]" if claim.choices else " [a number]" if claim.has_limit else ""
            click.echo(f"{claim.id:<26} {claim.sentence}{more}")
    elif what == "mistakes":
        from impl.mistakes import MISTAKES

        for mistake in MISTAKES.values():
            click.echo(f"{mistake.id}  {mistake.kind}  {mistake.sentence}")
    else:
        for prop in (PROPERTIES if what == "properties" else WITNESSES).values():
            click.echo(f"{prop.id:<24} {prop.sort:<10} {prop.name}")
