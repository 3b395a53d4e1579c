-- The few commands of Redis that access.lua needs, over a kept connection.
local M = {}

local function read(socket)
  local line, err = socket:receive()
  if not line then return nil, err end
  local kind, rest = line:sub(1, 1), line:sub(2)
  if kind == '+' then return rest end
  if kind == ':' then return tonumber(rest) end
  if kind == '-' then return nil, rest end
  local n = tonumber(rest)
  if n < 0 then return false end
  if kind == '$' then
    local text
    text, err = socket:receive(n + 2)
    if not text then return nil, err end
    return text:sub(1, n)
  end
  local all = {}
  for i = 1, n do
    all[i], err = read(socket)
    if all[i] == nil then return nil, err end
  end
  return all
end

-- call sends one command and returns the reply, or nil and an error.
function M.call(port, ...)
  local socket = ngx.socket.tcp()
  socket:settimeout(1000)
  local ok, err = socket:connect('127.0.0.1', port)
  if not ok then return nil, err end
  local n = select('#', ...)
  local parts = {'*', n, '\r\n'}
  for i = 1, n do
    local text = tostring(select(i, ...))
    local at = #parts
    parts[at + 1], parts[at + 2], parts[at + 3], parts[at + 4], parts[at + 5] = '$', #text, '\r\n', text, '\r\n'
  end
  ok, err = socket:send(parts)
  if not ok then return nil, err end
  local reply
  reply, err = read(socket)
  if reply == nil then
    socket:close()
    return nil, err
  end
  socket:setkeepalive(60000, 512)
  return reply
end

return M
