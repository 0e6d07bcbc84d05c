"""Wrong numbers -> words and a place.

    Charge ──Suspect──> causes: what relation     ┐
                └─────> search: which elements    ┘──> Diagnosis

`charge` is what the battery hands over, `suspect` the wrong gradient and the experiments
that may be made with it, `witness` the equations that the true one satisfies. `causes/`
has one relation a file; `cells` and `search` find the elements, `region` names them.
"""

from backproof.diagnosis.charge import Charge
from backproof.diagnosis.diagnosis import Diagnosis, diagnose
from backproof.diagnosis.suspect import Budget

__all__ = ["Budget", "Charge", "Diagnosis", "diagnose"]
