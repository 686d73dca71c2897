local key, a, whole = KEYS[1], cjson.decode(ARGV[1]), 1000000000
local state, members, raw = nil, {}, redis.call('HGETALL', key)
for i = 1, #raw, 2 do
  if raw[i] == 'state' then state = cjson.decode(raw[i + 1])
  else members[raw[i]] = cjson.decode(raw[i + 1]) end
end
local server = string.match(redis.call('INFO', 'server'), 'run_id:(%w+)')
  .. string.match(redis.call('INFO', 'replication'), 'master_replid:(%w+)')
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local function put(id, record)
  members[id] = record
  redis.call('HSET', key, id, cjson.encode(record))
end
local function drop(id)
  members[id] = nil
  redis.call('HDEL', key, id)
end
local function begin_epoch()
  state = state or {seq = 0, capacity = a.capacity, slack = a.slack}
  state.epoch, state.server, state.base, state.pool = a.nonce, server, state.seq, 0
end
local function answer(kind, share, room)
  redis.call('HSET', key, 'state', cjson.encode(state))
  return cjson.encode({kind = kind, share = share, room = room, members = members,
    epoch = state.epoch, seq = state.seq, capacity = state.capacity, slack = state.slack})
end

local foreign = not state or state.server ~= server
if foreign and a.epoch == '' and not a.create and (a.id or not state) then
  return '{"kind": "missing"}'
end
if not state or (foreign and a.create) then begin_epoch() end
if a.create then state.capacity, state.slack = a.capacity, a.slack end
for id, order in pairs(a.forget or {}) do
  local record = members[id]
  if record and record.incarnation == order[1] and record.n == order[2] then drop(id) end
end

-- Does the state fit what the caller knows?
local me = members[a.id]
local told = me and me.epoch == state.epoch
if a.id then
  if me and (a.incarnation < me.incarnation or a.incarnation == me.incarnation and a.n <= me.n) then
    return answer('replaced')
  end
  local same = a.epoch == state.epoch
  if same and not me and a.seq <= state.seq then return answer('forgotten') end
  if state.server ~= server or (same and a.seq > state.seq)
    or (told and (a.share > me.share or not same and a.epoch ~= '')) then
    begin_epoch()
    told = false
  end
  if a.epoch ~= '' and a.epoch ~= state.epoch and a.seq > state.base then
    -- The caller's roster is newer than what is known of those that have not told yet.
    for id, record in pairs(members) do
      if record.epoch ~= state.epoch and id ~= a.id and a.roster[id] == nil then drop(id) end
    end
    for id, promise in pairs(a.roster) do
      if not members[id] then
        put(id, {epoch = '', share = 0, incarnation = 0, n = 0, joined = 0, promise = promise})
      end
    end
    state.base = a.seq
  end
end

-- What do the others hold, and do they know of the caller?
local joined = me and me.joined or state.seq + 1
local others, silent, all, known, count = 0, 0, true, true, 1
for id, record in pairs(members) do
  if id ~= a.id then
    count = count + 1
    record.told = record.epoch == state.epoch
    record.live = record.told and math.abs(now - record.at) <= record.late
    if record.told then others = others + record.share else all = false end
    if record.live then known = known and record.seen >= joined
    elseif record.told then silent = silent + record.share end
  end
end
if not a.id then return answer('seen') end
if not me and 2 * count > state.slack then return answer('full') end

local share = a.share
if not told then
  share = math.min(share, math.max(0, whole - others))
  state.pool = state.pool + share
end
local limit = all and whole or math.min(whole, state.pool)
local recorded = told and me.share or share
local want = a.want or recorded
if want > share and (known or want <= recorded) then
  share = math.max(share, math.min(want, limit - others))
end
state.seq = math.max(state.seq, a.seq) + 1
put(a.id, {share = share, demand = a.demand, incarnation = a.incarnation, n = a.n, at = now,
  late = a.late, epoch = state.epoch, seen = a.epoch == state.epoch and a.seq or 0,
  joined = joined, promise = a.promise})
if a.leave and share == 0 then drop(a.id) end
return answer('held', share, limit - silent)
