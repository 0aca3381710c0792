-- Exports  int int_once
--
-- Integers as text. Lua's own conversion turns to exponents at 15 digits, so no computed number is joined into a string
-- in any other way. Formatting is dear and a batch repeats most of its numbers, so each is formatted once.

-- `%d` is the faster one, and wrong where a long has 32 bits.
local INTEGER = string.format('%d', 1099511627776) == '1099511627776' and '%d' or '%.0f'

local formatted = {}

local function int(number)
  local text = formatted[number]
  if not text then
    text = string.format(INTEGER, number)
    formatted[number] = text
  end
  return text
end

-- The same for a number that will not come again, such as a fencing token.
local function int_once(number)
  return string.format(INTEGER, number)
end
