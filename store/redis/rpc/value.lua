-- Small named values. KEYS[1] the value, ARGV: tag, then get, or put value, or
-- delete value. The reply is {tag} or {tag, the value that is stored now}.
local tag, what, value = ARGV[1], ARGV[2], ARGV[3]
local stored = redis.call('GET', KEYS[1])
if what == 'put' and not stored then
  redis.call('SET', KEYS[1], value)
  stored = value
elseif what == 'delete' and stored == value then
  redis.call('DEL', KEYS[1])
  stored = false
end
if stored then return {tag, stored} end
return {tag}
