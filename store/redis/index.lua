-- Keeps and reads the sorted list of all ids. KEYS[1] the list, ARGV: tag,
-- then add|remove id, or page cursor limit. The reply is {tag, id, ...}.
local tag, what = ARGV[1], ARGV[2]
if what == 'add' then
  redis.call('ZADD', KEYS[1], 0, ARGV[3])
elseif what == 'remove' then
  redis.call('ZREM', KEYS[1], ARGV[3])
else
  local from = ARGV[3] == '' and '-' or '(' .. ARGV[3]
  local reply = redis.call('ZRANGEBYLEX', KEYS[1], from, '+', 'LIMIT', 0, ARGV[4])
  table.insert(reply, 1, tag)
  return reply
end
return {tag}
