-- The state machine of a request, in one atomic step. The numbered steps are those
-- of Settle in store/store.go, in the same order.
--
-- KEYS[1]  the key's hash:   rev doc lock fails floor hi window spans
--          last:<version>; spans = "span count" of each hash of nonces;
--          from = "origin:tick" of two accepted requests, the one noted last first;
--          parts = "origin=failures " of each that added to fails meanwhile
-- KEYS[2]  its buckets:      b:<bucket> = "used at unit", until = when Redis
--          drops them, a second less: at most a minute after all are empty
-- KEYS[3]  the beat of the content: the moment of its last accepted request, to half
--          a millisecond, and if there was a loss its floor; 16 digits each, us
-- KEYS[4-] its nonces, one hash per span of expiry: digest = end, ms into the
--          span. All are declared, so that a cluster refuses the call while it
--          moves the slot. The clock and spans decide which of them are read.
--
-- Constants and arguments are named by the prologue that settle.go makes;
-- failed and counts are sets of rules, a bit for each. From FIRST_CHARGE on,
-- each bucket has two arguments: its field, and unit, drain, capacity and cost.
--
-- Everything is read before anything but a floor is written, so that an error in between
-- writes nothing. The reply is {tag, outcome, number, ...}; the outcome is the name
-- of an auth.Reason, and then the first number is the beat, or a word of settle.go when
-- nothing was decided.
--
-- This runs with every request. Making a number a text costs as much as half a
-- command, and reading one a quarter, so both are done only where they must be:
-- Lua reads a text in arithmetic by itself, which is the cheapest way.

local history, role, silent = server()
if role ~= 'master' or not find(servers, '.' .. history, 1, true) then
  return {tag, 'server', history .. ' ' .. role}
end
if silent > LAG then  -- cut off, perhaps replaced
  return {tag, 'replicas', silent}
end
local time = clock()
local now = time
if now - claim_now > SKEW or claim_now - now > SKEW then
  return {tag, 'clock', now - claim_now}
end

-- An older copy of the content has an older beat than the gateway has seen. So does one
-- whose floor nobody can have written.
local beat, beaten, raised = call('GET', KEYS[3]), 0, 0
if beat then
  if #beat > 16 then
    beat, raised = string.sub(beat, 1, 16), tonumber(string.sub(beat, 18)) or 0
  end
  beaten = tonumber(beat) or 0
end
if beaten < seen or raised > time + 2 * SKEW then
  return {tag, 'older', beaten}
end

-- 1. The revision.
local stored = call('HMGET', KEYS[1], 'rev', 'fails', 'floor', 'last:' .. version, 'window', 'spans', 'from')
if stored[1] ~= revision then
  return {tag, 'stale'}
end
local failures = (stored[2] or 0) + 0

-- The windows. The nonces of this key live for the widest window in use, which
-- is kept for LINGER after it was last used. Where it was made wider, requests
-- stamped up to narrow_to may have nonces that live for a narrow window only.
local now_ms = (now - now % 1000) / 1000
local kept, kept_at, narrow, narrow_to = window, now_ms, 0, 0
local windows_changed, narrowed = false, false
if stored[5] ~= windows then  -- once a minute, and while there are two windows
  kept, kept_at, narrow, narrow_to = string.match(stored[5] or '', '^(%d+) (%d+) (%d+) (%d+)$')
  windows_changed = not kept
  kept, kept_at = (kept or window) + 0, (kept_at or now_ms) + 0       -- ms
  narrow, narrow_to = (narrow or 0) + 0, (narrow_to or 0) + 0         -- ms, s
  if narrow > 0 and narrow_to * 1000 + LONGEST < now_ms then
    narrow, narrow_to, windows_changed = 0, 0, true  -- out of every window
  end
  if window > kept then
    if narrow == 0 or kept < narrow then narrow = kept end
    narrow_to = math.max(narrow_to, math.ceil((now_ms + kept) / 1000 + SKEW / 1000000))
    kept, kept_at, windows_changed = window, now_ms, true
  elseif window == kept and now_ms - kept_at >= 60000 then
    kept_at, windows_changed = now_ms, true
  elseif window < kept and now_ms - kept_at > LINGER then
    kept, kept_at, windows_changed, narrowed = window, now_ms, true, true
  end
  if life_window < kept then
    return {tag, 'window', kept}
  end
end

-- 2. Rule 5.
if failures >= lock_after then
  if dry_run or look then
    return {tag, LOCKED, beaten, failures, 0}
  end
  call('HSET', KEYS[1], 'rev', next_revision, 'lock', format('%d %d %d', claim_now, lock_until, failures))
  call('HDEL', KEYS[1], 'fails', 'parts')
  return {tag, LOCKED, beaten, 0, 1}
end

-- The nonces. If a hash holds fewer nonces than were written, before its time is
-- over, some were lost: by an eviction, a wrong clock or a restored backup. Then
-- the replay floor of this key rises to now.
local nonces = string.sub(KEYS[1], 1, -2) .. 'n'
local first = (now_ms - now_ms % SPAN) / SPAN
local ends = now_ms + life
local own, own_at, own_count = (ends - ends % SPAN) / SPAN, nil, 0  -- where this nonce would be
local live, current, replayed, lost, unnoted = 0, 0, false, false, false
local spans, n = {}, 0  -- span and count of each hash in turn, as texts

local function read(span, text, written)
  local name = nonces .. text
  local count = call('HLEN', name)
  local missing = written - count
  if missing > 0 then lost = true end
  if missing < 0 then unnoted = true end
  if count == 0 then return end
  local other = call('HGET', name, digest)
  if other and span * SPAN + other > now_ms then replayed = true end
  if missing ~= 0 then written = format('%d', count) end
  live = live + count
  if span == first then current = count end
  if span == own then own_at, own_count = n + 2, count end
  spans[n + 1], spans[n + 2], n = text, written, n + 2
end

-- What the record notes does not show how far to read: it may be an older copy that
-- was put back, or a new record, and then knows nothing of the latest nonces. Under one
-- window, an earlier nonce of the same bytes ends when this one would, or before; only
-- the clocks of two gateways may differ. So everything up to then is read. Under another
-- window it may end later. So all spans are read where the record has no live nonce,
-- knew of a wider window, or counts fewer nonces than a hash has.
local furthest = first + REACH
local latest = ends + 2 * SKEW / 1000
local last = math.min((latest - latest % SPAN) / SPAN, furthest)
local known, listed = {}, 0
for text, written in string.gmatch(stored[6] or '', '(%d+) (%d+)') do
  local span = text + 0
  if first <= span and span <= furthest then
    read(span, text, written)
    known[span], listed = true, listed + 1
    if span > last then last = span end
  end
end
if listed == 0 or narrowed or unnoted then last = furthest end
if listed <= last - first then  -- those that gateways have not counted, and gaps
  local names = {}
  for span = first, last do
    if not known[span] then names[#names + 1] = nonces .. format('%d', span) end
  end
  if call('EXISTS', unpack(names)) == 0 then last = first - 1 end
  local span = first
  while span <= last do
    if not known[span] then read(span, format('%d', span), 0) end
    if unnoted then last = furthest end
    span = span + 1
  end
end
if raised > floor then floor = raised end
if stored[3] then floor = math.max(floor, stored[3] + 0) end
if lost then
  floor = math.max(floor, now)
  if not look then
    call('HSET', KEYS[1], 'floor', format('%d', floor), 'spans', table.concat(spans, ' '))
  end
end

-- 3. to 5. Rules 6, 7, 8, 9, 10 and 12, in this order.
if replayed then failed = bit.bor(failed, NONCE_RULE) end
if failed > 0 then
  local rule = bit.band(failed, -failed)
  local reason, counted = string.match(REASONS, ' ' .. rule .. '=(%S+)'), not look and bit.band(counts, rule) ~= 0
  local origin, tick, busy = string.sub(from, 1, 16), string.sub(from, 18), false
  for other, at in string.gmatch(counted and stored[7] or '', '(%x+):(%d+)') do
    busy = busy or other ~= origin and math.abs(tick - at) <= BUSY
  end
  if busy then  -- others use the key: this one adds at most its share
    local parts = failures > 0 and call('HGET', KEYS[1], 'parts') or ''
    local part = tonumber(string.match(parts, origin .. '=(%d+)')) or 0
    if part >= math.min(SHARE, math.max(1, math.floor(lock_after / 2))) then
      return {tag, reason, beaten, failures, 1}
    elseif part > 0 then
      parts = string.gsub(parts, origin .. '=%d+', format('%s=%02d', origin, part + 1))
    elseif #parts < MAX_PARTS * 20 then
      parts = parts .. origin .. '=01 '
    end
    call('HSET', KEYS[1], 'parts', parts)
  end
  if counted then failures = call('HINCRBY', KEYS[1], 'fails', 1) end
  return {tag, reason, beaten, failures, 0}
end

-- 6. The replay floor, and nonces that have expired by a narrower window.
if floor > 0 and timestamp * 1000000 <= floor + ahead then
  return {tag, REPLAY_FLOOR, beaten, failures, floor + ahead}
end
if narrow > 0 then
  local forgotten = math.min(math.floor(claim_now / 1000000) - math.floor(narrow / 1000) - 1, narrow_to)
  if timestamp <= forgotten then
    return {tag, REPLAY_FLOOR, beaten, failures, forgotten * 1000000}
  end
end

-- 7. The buckets; the arithmetic is that of ratelimit.Charge. The reply has
-- their levels with what this request adds, if it is not taken back.
local reply = {tag, ACCEPTED, beaten, failures, now}
local over, charged, ends_all = false, {}, 0
if FIRST_CHARGE <= #ARGV then
  local fields = {'until', ARGV[FIRST_CHARGE]}
  for i = FIRST_CHARGE + 2, #ARGV, 2 do
    fields[#fields + 1] = ARGV[i]
  end
  local levels = call('HMGET', KEYS[2], unpack(fields))
  for i = 2, #fields do
    local unit, drain, capacity, cost = struct.unpack('<dddd', ARGV[FIRST_CHARGE + 2 * i - 3])
    local used, at, was = 0, 0, 0
    if levels[i] then
      used, at, was = string.match(levels[i], '^(%d+) (%d+) (%d+)$')
      used, at, was = (used or 0) + 0, (at or 0) + 0, (was or 0) + 0
    end
    if was ~= unit and was > 0 and used > 0 then
      used = math.ceil(used * unit / was)
    end
    if used > capacity then used = capacity end
    if now > at then
      local drained = (now - at) * drain
      if drained >= used then used = 0 else used = used - drained end
      at = now
    end
    local fits = used + cost <= capacity
    if not fits then over = true end
    used = used + cost
    local r = 3 * i
    reply[r], reply[r + 1], reply[r + 2] = used, at, fits and 1 or 0
    charged[2 * i - 3], charged[2 * i - 2] = fields[i], format('%d %d %d', used, at, unit)
    local empty = math.ceil((at + math.ceil(used / drain)) / 1000)
    if empty > ends_all then ends_all = empty end
  end
  if ends_all > (levels[1] or 0) + 0 then  -- a while longer, so that it is seldom moved
    charged[#charged + 1], charged[#charged + 2] = 'until', format('%d', ends_all + 60000)
  else
    ends_all = 0
  end
end

local limited = over and not limits_dry_run or body_dropped
if limited or over and not look then  -- this request adds nothing
  for i = FIRST_CHARGE + 1, #ARGV, 2 do
    local r = 6 + (i - FIRST_CHARGE - 1) / 2 * 3
    reply[r] = reply[r] - select(4, struct.unpack('<dddd', ARGV[i]))
  end
end
if limited then reply[2] = LIMITED end
if limited or look then return reply end
if max_nonces > 0 and live >= max_nonces then
  -- Those of the current span may have ended. Few are counted, the ends of many are taken
  -- for evenly spread.
  local passed = now_ms - first * SPAN
  if current > 1000 then
    live = live - math.floor(current * passed / SPAN)
  elseif current > 0 then
    local all = call('HGETALL', nonces .. format('%d', first))
    for i = 2, #all, 2 do
      if all[i] + 0 <= passed then live = live - 1 end
    end
  end
  if live >= max_nonces then
    return {tag, 'full', live}
  end
end
if not over and charged[1] then
  call('HSET', KEYS[2], unpack(charged))
  if ends_all > 0 then
    call('PEXPIRE', KEYS[2], format('%d', math.max(ends_all - now_ms, 0) + 61000))
  end
end

-- 8. The beat, the nonce, the windows, when the secret was used, and the count.
if time - beaten >= BEAT or time < beaten then
  reply[3] = math.max(time, beaten + 1)
  if raised + 3000 * LONGEST > time then  -- a request may still be stamped before it
    call('SET', KEYS[3], format('%d %d', reply[3], raised))
  else
    call('SET', KEYS[3], format('%d', reply[3]))
  end
end
local own_text = spans[own_at and own_at - 1] or format('%d', own)
local name = nonces .. own_text
local added = call('HSET', name, digest, format('%d', ends - own * SPAN))
if own_count == 0 then  -- later than any clock that fits reads it, so that it is never missing then
  call('PEXPIRE', name, format('%d', (own + 1) * SPAN - now_ms + 2 * SKEW / 1000 + 1000))
  own_at = n + 2
  spans[n + 1] = own_text
end
spans[own_at] = format('%d', own_count + added)
local noted = {'spans', table.concat(spans, ' ')}
if windows_changed then
  noted[#noted + 1] = 'window'
  noted[#noted + 1] = format('%d %d %d %d', kept, kept_at - kept_at % 60000, narrow, narrow_to)
end
if own_count == 0 or unnoted then  -- the last span with nonces, for versions that go by it
  for i = 1, #spans, 2 do own = math.max(own, spans[i] + 0) end
  noted[#noted + 1] = 'hi'
  noted[#noted + 1] = format('%d', own)
end
if version ~= '0' and stored[4] ~= minute then
  noted[#noted + 1] = 'last:' .. version
  noted[#noted + 1] = minute
end
local accepted = stored[7] or ''
if not dry_run and find(accepted, from, 1, true) ~= 1 and string.sub(accepted, 45) ~= string.sub(from, 18) then
  local one, two = string.sub(accepted, 1, 26), string.sub(accepted, 28)
  noted[#noted + 1] = 'from'
  noted[#noted + 1] = from .. ' ' .. (string.sub(one, 1, 16) == string.sub(from, 1, 16) and two or one)
end
if noted[3] then call('HSET', KEYS[1], unpack(noted)) else call('HSET', KEYS[1], 'spans', noted[2]) end  -- quicker
if failures > 0 and not dry_run then
  call('HDEL', KEYS[1], 'fails', 'parts')
  reply[4] = 0
end
return reply
