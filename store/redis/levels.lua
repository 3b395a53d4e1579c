-- Reads the levels of a key's buckets, at the time of the server, by which
-- settle.lua drains them. KEYS[1] the buckets. ARGV: tag, the time of the
-- caller, names of buckets. The reply is {tag, "time level ..."}; a level is
-- "used at unit", and "0 0 0" where none is stored.
local claim_now = tonumber(ARGV[2])
local time = clock()
local now = time
local levels = {int(now)}
for i = 3, #ARGV do
  levels[#levels + 1] = redis.call('HGET', KEYS[1], 'b:' .. ARGV[i]) or '0 0 0'
end
return {ARGV[1], table.concat(levels, ' ')}
