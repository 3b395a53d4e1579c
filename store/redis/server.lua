-- Joined before every script that needs to know which server runs it.

-- server returns the server's identity and role: its run, which is new with
-- every start, and its replication id, which is new with every promotion.
-- Under an identity that the gateways know, no acknowledged write was lost.
-- It also returns how many replicas there are, and the shortest time in seconds
-- since one of those that follow has acknowledged anything, 0 if none follows.
local function server()
  local run = string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')
  local info = redis.call('INFO', 'replication')
  local history = string.match(info, 'master_replid:(%x+)')
  local replicas, silent = tonumber(string.match(info, 'connected_slaves:(%d+)')), nil
  if replicas > 0 then
    for lag in string.gmatch(info, 'state=online,offset=%d+,lag=(%d+)') do
      silent = math.min(silent or math.huge, tonumber(lag))
    end
  end
  return string.sub(run, 1, 16) .. '.' .. string.sub(history, 1, 16), string.match(info, 'role:(%a+)'), replicas, silent or 0
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
