-- Raises the replay floor of a content that is older than a gateway has seen it. KEYS[1]
-- its beat. ARGV: tag, the latest beat that the gateway has seen, the replay floor of
-- the content that it knows. The nonces of all requests that were accepted until the
-- loss may be missing. A floor that was raised after the latest beat forbids them
-- already, so one loss has one floor. The new beat is later than all that were seen on
-- the content that was replaced, unless such a floor explains the loss: a gateway that
-- has seen a later one than the floor raises it again. The reply is {tag, found, at,
-- floor}: the beat that was found, and what is stored now.
local CLOCKS = 10000000  -- us, the most that two clocks may differ that fit a third
local time, seen, known = clock(), tonumber(ARGV[2]), tonumber(ARGV[3])
local text = call('GET', KEYS[1]) or ''
local found, floor = tonumber(string.sub(text, 1, 16)) or 0, tonumber(string.sub(text, 18)) or 0
if floor > time + CLOCKS then found, seen = 0, math.max(seen, time) end  -- nobody can have written it
local at = found
if found < seen then
  floor = seen <= known and known or math.min(math.max(time, seen), time + CLOCKS)
  at = math.max(floor, seen)
  call('SET', KEYS[1], format('%d %d', at, floor))
end
return {ARGV[1], found, at, floor}
