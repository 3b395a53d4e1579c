-- Reads a key. KEYS[1] its hash. ARGV: tag, the most bytes that are read. The reply
-- is {tag} when there is none, else {tag, field, value, ...}; {tag, bytes, revision}
-- when it is too large.
if redis.call('HEXISTS', KEYS[1], 'rev') == 0 then
  return {ARGV[1]}
end
local length = redis.pcall('HSTRLEN', KEYS[1], 'doc')  -- a user of before may lack the right
if type(length) == 'number' and length > tonumber(ARGV[2]) then
  return {ARGV[1], length, redis.call('HGET', KEYS[1], 'rev')}
end
local reply = redis.call('HGETALL', KEYS[1])
local bytes = 0
for i = 1, #reply do bytes = bytes + #reply[i] + 16 end
if bytes > tonumber(ARGV[2]) then
  return {ARGV[1], bytes, redis.call('HGET', KEYS[1], 'rev')}
end
table.insert(reply, 1, ARGV[1])
return reply
