-- Integers as text. Lua's own conversion turns to exponents at 15 digits, so no computed number is joined into a string
-- in any other way. Formatting is dear and a batch repeats most of its numbers, so each is formatted once.

local formatted = {}

local function int(number)
  local text = formatted[number]
  if not text then
    text = string.format('%d', number)
    formatted[number] = text
  end
  return text
end

-- The same for a number that will not come again, such as a fencing token.
local function int_once(number)
  return string.format('%d', number)
end
