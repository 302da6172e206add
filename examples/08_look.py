"""A run that ended, or goes on, looked at without a cluster; its best model as a file of Keras.

python examples/08_look.py RUN_FOLDER [FILE.keras]
"""

import sys

from daskevo_workflows import nas


def main(folder: str, file: str = "best.keras") -> None:
    result = nas.look(folder)  # as it is at this moment; nothing is changed
    summary = result.summary()
    print(f"{summary['evaluations']} evaluations, {summary['transferred']} of them inherited a prefix")
    for found in result.best(3):
        print(f"{found.quality:.3f}  {found.model_id}  {found.choices}")
    best = result.best(1)[0]
    for share in result.repository.contributors(best.model_id):
        print(f"{share.nbytes} bytes of the best were last trained in {share.owner}")
    best.model.save(file)
    print("saved:", file)
    print("report:", result.report())


if __name__ == "__main__":
    main(*sys.argv[1:])
