-- Forgets a key but neither its nonces nor what is noted of them, as
-- long as the requests could be inside any window. Where the notes cannot be read, the
-- replay floor of the key rises to now. KEYS[1] its hash, KEYS[2]
-- its buckets, ARGV: tag, the revision (empty: any), ms of one nonce hash, ms
-- of the longest window.
-- The reply is {tag, outcome, replicas}.
local tag, expect, span, longest = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local stored = redis.pcall('HMGET', KEYS[1], 'rev', 'hi', 'window', 'spans', 'floor')
if stored.err then  -- something else has put a value of another type there
  if expect ~= '' or not find(stored.err, 'WRONGTYPE', 1, true) then return stored end
  stored = {'', 'unknown'}
end
if not stored[1] then return {tag, 'none'} end
if expect ~= '' and stored[1] ~= expect then return {tag, 'conflict'} end
local _, _, _, replicas = server()
redis.call('DEL', KEYS[1], KEYS[2])
local now = clock()
local highest, floor = tonumber(stored[2] or '-1'), tonumber(stored[5] or '0')
if not (highest and floor) then
  stored, highest, floor = {}, -1, now
end
local left = math.max((highest + 1) * span + longest, floor / 1000 + 2 * longest) - now / 1000
if left > 0 then
  left = left + 86400000  -- should the clock be ahead now
  stored[5] = floor > 0 and int(floor)
  for i, field in ipairs({'hi', 'window', 'spans', 'floor'}) do
    if stored[i + 1] then redis.call('HSET', KEYS[1], field, stored[i + 1]) end
  end
  redis.call('PEXPIRE', KEYS[1], int(math.ceil(left)))
end
return {tag, 'ok', int(replicas)}
