-- Writes a key on condition. KEYS[1] its hash, ARGV: tag, the revision that is
-- replaced (empty: there is none), the new revision, the document, the lock
-- (or empty), whether to clear the count, the replay floor (or 0).
-- The reply is {tag, outcome, replicas}.
local tag, expect, floor = ARGV[1], ARGV[2], tonumber(ARGV[7])
local revision = redis.call('HGET', KEYS[1], 'rev')
if expect == '' and revision then return {tag, 'exists'} end
if expect ~= '' and revision ~= expect then return {tag, 'conflict'} end
local _, _, _, replicas = server()
redis.call('HSET', KEYS[1], 'rev', ARGV[3], 'doc', ARGV[4])
if ARGV[5] ~= '' then
  redis.call('HSET', KEYS[1], 'lock', ARGV[5])
else
  redis.call('HDEL', KEYS[1], 'lock')
end
if ARGV[6] == '1' then
  redis.call('HDEL', KEYS[1], 'fails')
end
if expect == '' then
  redis.call('PERSIST', KEYS[1])
  floor = math.max(floor, tonumber(redis.call('HGET', KEYS[1], 'floor') or '0'))
  if floor > 0 then
    redis.call('HSET', KEYS[1], 'floor', int(floor))
  end
end
return {tag, 'ok', int(replicas)}
