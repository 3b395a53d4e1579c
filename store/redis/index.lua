-- Keeps and reads the sorted list of all ids, and the feed of changes. KEYS[1] the
-- list, KEYS[2] the feed: its members are 16 digits, ':' and the id of a changed key.
-- The digits are the server's microseconds, or one more than those of the newest
-- member, so the feed is in the order of the changes also after the clock was set
-- back. Its oldest members are removed as others are added, and so that the newest
-- one of more than KEEP stays: it is what gateways have seen of a store at rest.
-- ARGV: tag, then add|remove|changed id; or page cursor limit; or feed mark limit.
-- The reply is {tag, id or member, ...}: the feed begins with the mark, which is the
-- last member that the gateway has read. If it is missing there, a new one is the reply.
local KEEP, MOST = 300000000, 100
local tag, what, value = ARGV[1], ARGV[2], ARGV[3]
local list, feed = KEYS[1], KEYS[2]

local function note(id)
  local now = clock()
  local old = call('ZRANGEBYLEX', feed, '-', '(' .. format('%016d', now - KEEP), 'LIMIT', 0, MOST)
  table.remove(old)
  if old[1] then call('ZREM', feed, unpack(old)) end
  local later = call('ZRANGEBYLEX', feed, '[' .. format('%016d', now), '+')
  if later[1] then now = math.max(now, (tonumber(string.sub(later[#later], 1, 16)) or 0) + 1) end
  local member = format('%016d:%s', now, id)
  call('ZADD', feed, 0, member)
  return member
end

local reply = {}
if what == 'page' then
  reply = call('ZRANGEBYLEX', list, value == '' and '-' or '(' .. value, '+', 'LIMIT', 0, ARGV[4])
elseif what == 'feed' then
  if value ~= '' then reply = call('ZRANGEBYLEX', feed, '[' .. value, '+', 'LIMIT', 0, ARGV[4]) end
  if reply[1] ~= value or value == '' then reply = {note('')} end
elseif what == 'add' then
  call('ZADD', list, 0, value)
else
  if what == 'remove' then call('ZREM', list, value) end
  note(value)
end
table.insert(reply, 1, tag)
return reply
