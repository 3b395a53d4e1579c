-- Writes a key on condition. KEYS[1] its hash, ARGV: tag, the revision that is
-- replaced (empty: there is none), the new revision, the document, the lock
-- (or empty), whether to clear the count, the replay floor (or 0), whether to restore.
-- To restore is to replace the whole hash, or a value of another type. What it notes
-- of the nonces is lost then, so the replay floor of the key rises to now.
-- The reply is {tag, outcome, replicas}.
local tag, expect, floor, restores = ARGV[1], ARGV[2], tonumber(ARGV[7]), ARGV[8] == '1'
local stored = redis.pcall('HMGET', KEYS[1], 'rev', 'floor')
if stored.err then
  if not restores or not find(stored.err, 'WRONGTYPE', 1, true) then return stored end
  stored = {}
end
local revision = stored[1]
if expect == '' and revision then return {tag, 'exists'} end
if expect ~= '' and revision ~= expect then return {tag, 'conflict'} end
local _, _, _, replicas = server()
if restores then
  redis.call('DEL', KEYS[1])
  floor = math.max(floor, clock())
end
redis.call('HSET', KEYS[1], 'rev', ARGV[3], 'doc', ARGV[4])
if ARGV[5] ~= '' then
  redis.call('HSET', KEYS[1], 'lock', ARGV[5])
else
  redis.call('HDEL', KEYS[1], 'lock')
end
if ARGV[6] == '1' then
  redis.call('HDEL', KEYS[1], 'fails', 'parts')
end
if expect == '' or restores then
  redis.call('PERSIST', KEYS[1])
  floor = math.max(floor, tonumber(stored[2] or '0') or 0)
  if floor > 0 then
    redis.call('HSET', KEYS[1], 'floor', int(floor))
  end
end
return {tag, 'ok', int(replicas)}
