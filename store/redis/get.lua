-- Reads a key. KEYS[1] its hash. The reply is {tag} when there is none, else
-- {tag, field, value, ...}.
if redis.call('HEXISTS', KEYS[1], 'rev') == 0 then
  return {ARGV[1]}
end
local reply = redis.call('HGETALL', KEYS[1])
table.insert(reply, 1, ARGV[1])
return reply
