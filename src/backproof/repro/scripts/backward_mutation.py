"""BP202: cotangents and saved tensors before and after backward."""

from __future__ import annotations

from backproof.repro.conviction import Conviction
from backproof.repro.script import Script, script

_TEMPLATE = """
$setup

$outputs

found, nodes = outputs(), {}
queue = [y.grad_fn for y in found]
while queue:  # the nodes of hand-written Functions
    node = queue.pop()
    if node is not None and node not in nodes:
        nodes[node] = hasattr(node, "needs_input_grad")
        queue += [following for following, _ in node.next_functions]
torch.manual_seed(0)
watched = []

def watch(tensors):
    watched.extend((t, t.clone()) for t in tensors if torch.is_tensor(t))

for node in (node for node, is_custom in nodes.items() if is_custom):
    $watching
torch.autograd.grad(found, $inputs, [torch.randn_like(y) for y in found], allow_unused=True)
changed = sum((t != before).sum().item() for t, before in watched)
said = f"backward overwrites {changed} elements of $what"
print(said)
assert not changed, "$code: " + said
"""


def backward_mutation(conviction: Conviction) -> Script:
    """Watches what every hand-written backward is handed, or has saved."""
    saved = "saved tensor" in conviction.title
    watching = "watch(node.saved_tensors)" if saved else "node.register_prehook(watch)"
    what = "saved tensors" if saved else "its cotangents"
    return script(
        conviction, conviction.stage(), _TEMPLATE, watching=watching, what=what
    )
