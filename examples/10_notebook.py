# %% [markdown]
# # A search in a notebook
#
# A text in the percent format: Jupyter opens it as a notebook (with jupytext); VS Code, Spyder and PyCharm run its
# cells one by one. Not `python examples/10_notebook.py`: worker processes would run the file anew.

# %%
import daskevo
from daskevo.search import AgedEvolution
from daskevo_workflows import nas

cluster = daskevo.local_cluster(trainers=2)
client = cluster.get_client()
client  # shows where the dashboard is

# %% [markdown]
# The repository keeps what is trained. Run a cell again: nothing is trained twice.

# %%
repository = daskevo.open("runs/notebook/repository", "digits", client=client, objective="max val_accuracy")
result = nas.search(
    "digits", AgedEvolution(population=4, sample=2), repository=repository, evaluations=6, run="runs/notebook"
)
result.best(3)

# %% [markdown]
# Every candidate is a row: what was chosen, what it inherited, how long each phase took.

# %%
frame = result.frame()
frame[["number", "status", "quality", "inherited_layers", "layers", "frozen_share", "training_s"]]

# %%
frame[frame.status == "finished"].plot.scatter("parameters", "quality")

# %% [markdown]
# Two more evaluations: the number is a total. Then the best, with nothing frozen, for a few epochs more.

# %%
result = nas.search(
    "digits", AgedEvolution(population=4, sample=2), repository=repository, evaluations=8, run="runs/notebook"
)
(refined,) = nas.refine(result.best(1), epochs=3)
refined.found.quality, refined.quality

# %%
refined.model.summary()
client.close()
cluster.close()
