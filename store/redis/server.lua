-- Joined before every script that needs to know which server runs it.

-- server returns the server's identity and role: its run, which is new with
-- every start, and its replication id, which is new with every promotion.
-- Under an identity that the gateways know, no acknowledged write was lost.
-- It also returns how many replicas there are, and the shortest time in seconds
-- since one of those that follow has acknowledged anything, 0 if none follows.
local function server()
  local info = redis.call('INFO', 'server') .. redis.call('INFO', 'replication')
  local run = string.match(info, 'run_id:(%x+)')
  local replication = string.match(info, 'master_replid:(%x+)')
  local identity = string.sub(run, 1, 16) .. '.' .. string.sub(replication, 1, 16)
  local silent
  for lag in string.gmatch(info, 'state=online,offset=%d+,lag=(%d+)') do
    silent = math.min(silent or math.huge, tonumber(lag))
  end
  return identity, string.match(info, 'role:(%a+)'), tonumber(string.match(info, 'connected_slaves:(%d+)')), silent or 0
end

-- clock returns the server's time in microseconds.
local function clock()
  local t = redis.call('TIME')
  return t[1] * 1000000 + t[2]
end

-- int writes a whole number up to 2^53 without an exponent.
local function int(n)
  return string.format('%.0f', n)
end
