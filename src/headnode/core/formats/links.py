"""Which jobs of one file wait for which: the words for it that all job languages share."""

from headnode.core.model.dependencies import FIELDS as FIELDS
from headnode.core.model.dependencies import Condition as Condition
from headnode.core.model.dependencies import Link as Link
