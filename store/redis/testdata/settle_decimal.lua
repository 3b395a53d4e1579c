-- settle.lua as it was when all numbers were arguments of their own, as decimals.
-- Gateways of that version may run beside newer ones: see upgrade_test.go.
-- Joined before every script that needs to know which server runs it.

-- server returns the server's identity and role: its run, which is new with
-- every start, and its replication id, which is new with every promotion.
-- Under an identity that the gateways know, no acknowledged write was lost.
-- It also returns how many replicas there are, and the shortest time in seconds
-- since one of those that follow has acknowledged anything, 0 if none follows.
local function server()
  local run = string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')
  local info = redis.call('INFO', 'replication')
  local history = string.match(info, 'master_replid:(%x+)')
  local replicas, silent = tonumber(string.match(info, 'connected_slaves:(%d+)')), nil
  if replicas > 0 then
    for lag in string.gmatch(info, 'state=online,offset=%d+,lag=(%d+)') do
      silent = math.min(silent or math.huge, tonumber(lag))
    end
  end
  return string.sub(run, 1, 16) .. '.' .. string.sub(history, 1, 16), string.match(info, 'role:(%a+)'), replicas, silent or 0
end

-- clock returns the server's time in microseconds.
local function clock()
  local t = redis.call('TIME')
  return t[1] * 1000000 + t[2]
end

-- int writes a whole number up to 2^53 without an exponent.
local function int(n)
  return string.format('%.0f', n)
end
local SPAN, REACH, SKEW, LAG = 128000, 58, 5000000, 3 -- ms, spans, us, s
local LINGER, LONGEST = 600000, 3600000 -- ms
local ACCEPTED, LIMITED, LOCKED, REPLAY_FLOOR = 'accepted', 'rate_limited', 'key_locked', 'replay_floor'
local BIT, REASON = {}, {} -- by rule
BIT[6], REASON[6] = 64, 'ip_not_allowed'
BIT[7], REASON[7] = 128, 'timestamp_out_of_window'
BIT[8], REASON[8] = 256, 'replayed_nonce'
BIT[9], REASON[9] = 512, 'body_hash_mismatch'
BIT[10], REASON[10] = 1024, 'signature_mismatch'
BIT[12], REASON[12] = 4096, 'scope_missing'
local tag = ARGV[1]
local revision = ARGV[2]
local next_revision = ARGV[3]
local servers = ARGV[4]
local floor = tonumber(ARGV[5])
local ahead = tonumber(ARGV[6])
local claim_now = tonumber(ARGV[7])
local timestamp = tonumber(ARGV[8])
local window = tonumber(ARGV[9])
local life_window = tonumber(ARGV[10])
local life = tonumber(ARGV[11])
local digest = ARGV[12]
local failed = tonumber(ARGV[13])
local counts = tonumber(ARGV[14])
local lock_after = tonumber(ARGV[15])
local lock_until = ARGV[16]
local dry_run = ARGV[17] == '1'
local limits_dry_run = ARGV[18] == '1'
local version = ARGV[19]
local minute = ARGV[20]
local look = ARGV[21] == '1'
local body_dropped = ARGV[22] == '1'
local max_nonces = tonumber(ARGV[23])
local FIRST_CHARGE = 24
-- The state machine of a request, in one atomic step: see Settle in
-- store/store.go, whose numbered steps stand here in the same order.
--
-- KEYS[1]  the key's hash:   rev doc lock fails floor hi window spans
--          last:<version>; spans = "span count" of each hash of nonces
-- KEYS[2]  its buckets:      b:<bucket> = "used at unit", until = end of all
-- KEYS[3-] its nonces, one hash per span of expiry: digest = end, ms into the
--          span. They are declared for the sake of a cluster that is moving
--          the slot; which of them are read follows from the clock and hi.
--
-- Constants and arguments are named by the prologue that arguments.go makes;
-- failed and counts are sets of rules, and each bucket has five arguments from
-- FIRST_CHARGE on: bucket unit drain capacity cost.
--
-- Everything is read before anything but a floor is written, so that an error in between
-- writes nothing. The reply is {tag, outcome, numbers}; the outcome is the name
-- of an auth.Reason, or a word of settle.go when nothing was decided.

local identity, role, _, silent = server()
if role ~= 'master' or not string.find(servers, identity, 1, true) then
  return {tag, 'server', identity .. ' ' .. role}
end
if silent > LAG then  -- cut off, perhaps replaced
  return {tag, 'replicas', int(silent)}
end
local now = clock()
if math.abs(now - claim_now) > SKEW then
  return {tag, 'clock', int(now - claim_now)}
end

-- 1. The revision.
local stored = redis.call('HMGET', KEYS[1], 'rev', 'fails', 'floor', 'hi', 'last:' .. version, 'window', 'spans')
if stored[1] ~= revision then
  return {tag, 'stale', '0'}
end
local failures = tonumber(stored[2] or '0')

-- The windows. The nonces of this key live for the widest window in use, which
-- is kept for LINGER after it was last used. Where it was made wider, requests
-- stamped up to narrow_to may have nonces that live for a narrow window only.
local now_ms = math.floor(now / 1000)
local kept, kept_at, narrow, narrow_to = string.match(stored[6] or '', '^(%d+) (%d+) (%d+) (%d+)$')
kept, kept_at = tonumber(kept or window), tonumber(kept_at or now_ms)    -- ms
narrow, narrow_to = tonumber(narrow or '0'), tonumber(narrow_to or '0')  -- ms, s
if narrow_to * 1000 + LONGEST < now_ms then
  narrow, narrow_to = 0, 0  -- out of every window
end
if window > kept then
  if narrow == 0 or kept < narrow then narrow = kept end
  narrow_to = math.max(narrow_to, math.ceil((now_ms + kept) / 1000 + SKEW / 1000000))
  kept, kept_at = window, now_ms
elseif window == kept and now_ms - kept_at > 60000 then
  kept_at = now_ms
elseif window < kept and now_ms - kept_at > LINGER then
  kept, kept_at = window, now_ms
end
if life_window < kept then
  return {tag, 'window', int(kept)}
end

-- 2. Rule 5.
if failures >= lock_after then
  if dry_run or look then
    return {tag, LOCKED, int(failures) .. ' 0'}
  end
  redis.call('HSET', KEYS[1], 'rev', next_revision, 'lock', int(claim_now) .. ' ' .. lock_until .. ' ' .. int(failures))
  redis.call('HDEL', KEYS[1], 'fails')
  return {tag, LOCKED, '0 1'}
end

-- spans_text writes the counts of spans, one list of {span, count}.
local function spans_text(spans)
  local text = {}
  for i, s in ipairs(spans) do text[i] = int(s[1]) .. ' ' .. int(s[2]) end
  return table.concat(text, ' ')
end

local function fails(rule)
  return bit.band(failed, BIT[rule]) ~= 0
end

local function refuse(rule)
  if not look and bit.band(counts, BIT[rule]) ~= 0 then
    failures = redis.call('HINCRBY', KEYS[1], 'fails', 1)
  end
  return {tag, REASON[rule], int(failures)}
end

-- The nonces. A hash of them that holds fewer than were written, before its
-- time is over, has lost some, whatever took them: an eviction, a wrong clock, a
-- restored backup. The replay floor of this key rises to now then.
local nonces = string.sub(KEYS[1], 1, -2) .. 'n'
local first = math.floor(now_ms / SPAN)
local highest = tonumber(stored[4] or '0')
floor = math.max(floor, tonumber(stored[3] or '0'))
local counted, others = {}, {}
for span, count in string.gmatch(stored[7] or '', '(%d+) (%d+)') do
  if tonumber(span) >= first then counted[tonumber(span)] = tonumber(count) end
end
local live, replayed, lost = 0, false, false
for span = first, math.min(highest, first + REACH) do
  local name = nonces .. int(span)
  local ends = redis.call('HGET', name, digest)
  if ends and span * SPAN + tonumber(ends) > now_ms then replayed = true end
  local count = redis.call('HLEN', name)
  if count < (counted[span] or 0) then lost = true end
  live = live + count
  if count > 0 then others[#others + 1] = {span, count} end
end
if lost then
  floor = math.max(floor, now)
  if not look then
    redis.call('HSET', KEYS[1], 'floor', int(floor), 'spans', spans_text(others))
  end
end

-- 3. Rules 6 and 7.
if fails(6) then return refuse(6) end
if fails(7) then return refuse(7) end

-- 4. Rule 8.
if replayed then return refuse(8) end

-- 5. Rules 9, 10 and 12.
if fails(9) then return refuse(9) end
if fails(10) then return refuse(10) end
if fails(12) then return refuse(12) end

-- 6. The replay floor, and what a narrower window has let be forgotten.
if floor > 0 and timestamp * 1000000 <= floor + ahead then
  return {tag, REPLAY_FLOOR, int(failures) .. ' ' .. int(floor + ahead)}
end
if narrow > 0 then
  local forgotten = math.min(math.floor(claim_now / 1000000) - math.floor(narrow / 1000) - 1, narrow_to)
  if timestamp <= forgotten then
    return {tag, REPLAY_FLOOR, int(failures) .. ' ' .. int(forgotten * 1000000)}
  end
end

-- 7. The buckets; the arithmetic is that of ratelimit.Charge.
local states, fields = {}, {'until'}
for i = FIRST_CHARGE, #ARGV, 5 do
  fields[#fields + 1] = 'b:' .. ARGV[i]
end
local levels = {}
if #fields > 1 then
  levels = redis.call('HMGET', KEYS[2], unpack(fields))
end
local over, ends_all = false, tonumber(levels[1] or '0')
local charged = {'until', ''}
for n = 2, #fields do
  local i = FIRST_CHARGE + (n - 2) * 5
  local unit, drain = tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2])
  local capacity, cost = tonumber(ARGV[i + 3]), tonumber(ARGV[i + 4])
  local used, at, was = 0, 0, 0
  if levels[n] then
    used, at, was = string.match(levels[n], '^(%d+) (%d+) (%d+)$')
    used, at, was = tonumber(used or '0'), tonumber(at or '0'), tonumber(was or '0')
  end
  if was ~= unit and was > 0 and used > 0 then
    used = math.ceil(used * unit / was)
  end
  used = math.min(used, capacity)
  if now > at then
    local drained = (now - at) * drain
    if drained >= used then used = 0 else used = used - drained end
    at = now
  end
  local fits = used + cost <= capacity
  if not fits then over = true end
  states[n - 1] = {used = used, at = at, fits = fits, cost = cost}
  charged[#charged + 1] = fields[n]
  charged[#charged + 1] = int(used + cost) .. ' ' .. int(at) .. ' ' .. int(unit)
  ends_all = math.max(ends_all, math.ceil((at + math.ceil((used + cost) / drain)) / 1000))
end

local function answer(reason)
  local spent = reason == ACCEPTED and not over
  local numbers = {int(failures), int(now)}
  for _, s in ipairs(states) do
    numbers[#numbers + 1] = int(spent and s.used + s.cost or s.used)
    numbers[#numbers + 1] = int(s.at)
    numbers[#numbers + 1] = s.fits and '1' or '0'
  end
  return {tag, reason, table.concat(numbers, ' ')}
end

if over and not limits_dry_run or body_dropped then
  return answer(LIMITED)
end
if look then
  return answer(ACCEPTED)
end
if max_nonces > 0 and live >= max_nonces then
  return {tag, 'full', int(live)}
end
if #states > 0 and not over then
  charged[2] = int(ends_all)
  redis.call('HSET', KEYS[2], unpack(charged))
  redis.call('PEXPIRE', KEYS[2], int(math.max(ends_all - now_ms, 0) + 1000))
end

-- 8. The nonce, the windows, when the secret was used, and the count.
local ends = now_ms + life
local span = math.floor(ends / SPAN)
local name = nonces .. int(span)
redis.call('HSET', name, digest, int(ends - span * SPAN))
local count = redis.call('HLEN', name)
if count == 1 then  -- a second later than it is read, so that it is never missing then
  redis.call('PEXPIRE', name, int((span + 1) * SPAN - now_ms + 1000))
end
local found = false
for _, s in ipairs(others) do
  if s[1] == span then s[2], found = count, true end
end
if not found then others[#others + 1] = {span, count} end
local noted = {'spans', spans_text(others)}
local windows = int(kept) .. ' ' .. int(kept_at) .. ' ' .. int(narrow) .. ' ' .. int(narrow_to)
if windows ~= stored[6] then
  noted[#noted + 1] = 'window'
  noted[#noted + 1] = windows
end
if span > highest then
  noted[#noted + 1] = 'hi'
  noted[#noted + 1] = int(span)
end
if version ~= '0' and stored[5] ~= minute then
  noted[#noted + 1] = 'last:' .. version
  noted[#noted + 1] = minute
end
redis.call('HSET', KEYS[1], unpack(noted))
if failures > 0 and not dry_run then
  redis.call('HDEL', KEYS[1], 'fails')
  failures = 0
end
return answer(ACCEPTED)
