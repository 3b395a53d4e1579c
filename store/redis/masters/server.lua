-- Joined before every script that needs to know which server runs it.
-- A local variable is read faster than a global one.
local KEYS, ARGV, string, math = KEYS, ARGV, string, math
local call, find, format = redis.call, string.find, string.format

-- server returns the first half of the server's replication id, and its role.
-- The id of a master is new with every start and with every promotion: under
-- one that the gateways know, no acknowledged write was lost. It also returns
-- the shortest time in seconds since one of the replicas that follow has
-- acknowledged anything, 0 if none follows, and how many replicas there are.
-- Most text is found plainly: patterns are slow.
local function server()
  local info = call('INFO', 'replication')
  local _, before = find(info, 'master_replid:', 1, true)
  local history = string.sub(info, before + 1, before + 16)
  if find(info, 'role:master\r\nconnected_slaves:0\r', 1, true) then
    return history, 'master', 0, 0
  end
  local silent
  for lag in string.gmatch(info, 'state=online,offset=%d+,lag=(%d+)') do
    silent = math.min(silent or math.huge, tonumber(lag))
  end
  return history, string.match(info, 'role:(%a+)'), silent or 0, tonumber(string.match(info, 'connected_slaves:(%d+)'))
end

-- clock returns the server's time in microseconds.
local function clock()
  local t = call('TIME')
  return t[1] * 1000000 + t[2]
end

-- int writes a whole number without an exponent.
local function int(n)
  return format('%d', n)
end
