-- What only shared state can decide, as one would write it by hand: the lock,
-- the nonce, and a limit per fixed window.
-- KEYS: failures, nonce, window. ARGV: what failed before ("", or a reason that
-- counts), lock after, ms of the nonce, limit, seconds of the window.
-- The reply is {reason, requests left}.
local failures = tonumber(redis.call('GET', KEYS[1]) or '0')
if failures >= tonumber(ARGV[2]) then return {'locked', 0} end
if ARGV[1] ~= '' then
  redis.call('INCR', KEYS[1])
  return {ARGV[1], 0}
end
if not redis.call('SET', KEYS[2], '1', 'NX', 'PX', ARGV[3]) then
  return {'replayed', 0}
end
local used = redis.call('INCR', KEYS[3])
if used == 1 then redis.call('EXPIRE', KEYS[3], ARGV[5]) end
local limit = tonumber(ARGV[4])
if used > limit then
  redis.call('DEL', KEYS[2])
  return {'limited', 0}
end
if failures > 0 then redis.call('DEL', KEYS[1]) end
return {'', limit - used}
