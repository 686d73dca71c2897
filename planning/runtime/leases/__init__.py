"""One capacity for a fleet over several hosts: shares of it, leased through Redis.

Every member holds a share of the capacity and the same share of the slack; it lets units pass from
a bucket of tokens of that rate and depth. Redis assigns the shares, once per ``renew_s`` and never
on the data path. While all shares in use add up to at most 1, all buckets together hold at most the
slack and fill at most at the capacity. So the fleet passes at most capacity x time + slack in every
stretch of time, as far as the hosts' clocks run at one pace. What keeps the sum:

- A member lowers its share before it says so, and raises it once Redis has recorded the raise: it
  never uses more than is recorded, whichever message is lost. Calls are numbered, late ones do
  nothing. New shares come without tokens. Tokens of batches under way stay in the bucket until the
  batch is over, even if the process is paused meanwhile.
- A member that loses Redis goes on with its share, so a silent member's share stays reserved: until
  it is back, closes, or an operator forgets it because it is gone for good. With ``forget_after_s``
  a member promises to stop by itself when Redis has not answered for nine tenths of that time, and
  the others, each by its own clock, use its share after the whole of it. The trade: without the
  promise a dead host's share lies idle, with it a host that is cut off sheds everything.
- A process that is killed and started again goes on with the share in its file, whose lock shows
  that nobody else does. Another file is another member, even under the same name.
- Redis may come back empty or with old data. Its state names the server process that wrote it, an
  epoch and a sequence number; where they do not fit, a new epoch begins. Members then tell again
  what they hold and whom they knew. Until all of these have, shares only move between those that
  have, within the sum of what these brought along. A newcomer is given nothing before all members
  in touch know of it, and does not begin an epoch: a member that remembers does, or an operator.
  (What nobody in touch remembers cannot be kept: a member that joined while another was silent, and
  is cut off when that one is the first to come back to an emptied Redis.)
"""

from planning.runtime.leases.capacity import LeasedCapacity
from planning.runtime.leases.drawing import LeasedBudget, LeasedThrottle

__all__ = ["LeasedBudget", "LeasedCapacity", "LeasedThrottle"]
