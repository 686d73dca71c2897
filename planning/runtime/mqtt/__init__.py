"""Devices on MQTT: plans arrive as retained messages, reports leave only when the plan says so.

Topics below ``headgate/<stream>``, in the manner of Sparkplug B:

=====================  ===========================================================================
``plan``               the version in force, retained: signed manifest and payload in one message
``NBIRTH/<node>``      session (bdSeq), sequence number and all values; retained as a sign of life
``NDATA/<node>``       reports: what has changed, as far as the plan lets it be sent
``NDEATH/<node>``      the session that has ended: the node's last will
``NCMD/<node>``        ``rebirth``: a receiver asks for all values
``nodes/<node>``       what the node says about itself (its status), retained
=====================  ===========================================================================

>>> from planning.runtime.mqtt import Node, Receiver, publish_plan
"""

from typing import TYPE_CHECKING, Any

from planning import lazy

if TYPE_CHECKING:
    from planning.runtime.mqtt.node import Node
    from planning.runtime.mqtt.plans import PlanMessages, publish_plan
    from planning.runtime.mqtt.receiver import Receiver, Shown
    from planning.runtime.mqtt.twin import Twin

__all__ = ["Node", "PlanMessages", "Receiver", "Shown", "Twin", "publish_plan"]
ROOMS = {
    "Node": "node",
    "PlanMessages": "plans",
    "Receiver": "receiver",
    "Shown": "receiver",
    "Twin": "twin",
    "publish_plan": "plans",
}


def __getattr__(name: str) -> Any:
    return lazy.load(__name__, name, ROOMS)
