-- Forgets a key but neither its nonces nor what is noted of them, as
-- long as the requests could be inside any window. KEYS[1] its hash, KEYS[2]
-- its buckets, ARGV: tag, the revision (empty: any), ms of one nonce hash, ms
-- of the longest window.
-- The reply is {tag, outcome, replicas}.
local tag, expect, span, longest = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local stored = redis.pcall('HMGET', KEYS[1], 'rev', 'hi', 'window', 'spans', 'floor')
if stored.err then  -- something else has put a value of another type there
  if expect ~= '' or not find(stored.err, 'WRONGTYPE', 1, true) then return stored end
  stored = {''}
end
if not stored[1] then return {tag, 'none'} end
if expect ~= '' and stored[1] ~= expect then return {tag, 'conflict'} end
local _, _, _, replicas = server()
redis.call('DEL', KEYS[1], KEYS[2])
local left = (tonumber(stored[2] or '0') + 1) * span + longest - math.floor(clock() / 1000)
if stored[2] and left > 0 then
  redis.call('HSET', KEYS[1], 'hi', stored[2])
  for i, field in ipairs({'window', 'spans', 'floor'}) do
    if stored[i + 2] then redis.call('HSET', KEYS[1], field, stored[i + 2]) end
  end
  redis.call('PEXPIRE', KEYS[1], int(left))
end
return {tag, 'ok', int(replicas)}
