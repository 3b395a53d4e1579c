-- What all gateways must agree on about the servers. KEYS[1] a hash: epoch,
-- floor, and s:<identity> = when it was first seen. ARGV: tag, the epoch to
-- write if there is none (empty: write nothing then), the least floor, whether
-- to raise the floor to now, then the identities of the servers.
--
-- The floor is the last moment at which nonces may have been lost, in
-- microseconds. It rises to now when an identity is seen for the first time on
-- a store that was in use. The reply is {tag, epoch, floor}, or {tag} when
-- there is no epoch.
local KEEP, DAY = 100, 86400000000
local tag, new_epoch, least, raise = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4] == '1'
local now = clock()
local stored = redis.call('HMGET', KEYS[1], 'epoch', 'floor')
local epoch, floor = stored[1], tonumber(stored[2] or '0')
local fresh = not epoch
if fresh then
  if new_epoch == '' then return {tag} end
  epoch = new_epoch
  redis.call('HSET', KEYS[1], 'epoch', epoch)
end
if redis.call('HLEN', KEYS[1]) > KEEP then
  local all = redis.call('HGETALL', KEYS[1])
  for i = 1, #all, 2 do
    if string.sub(all[i], 1, 2) == 's:' and now - tonumber(all[i + 1]) > DAY then
      redis.call('HDEL', KEYS[1], all[i])
    end
  end
end
for i = 5, #ARGV do
  if redis.call('HSETNX', KEYS[1], 's:' .. ARGV[i], int(now)) == 1 and not fresh then
    raise = true
  end
end
local before = floor
if raise then floor = math.max(floor, now) end
floor = math.max(floor, least)
if floor > before then
  redis.call('HSET', KEYS[1], 'floor', int(floor))
end
return {tag, epoch, int(floor)}
