-- Integers as text. Lua's own conversion turns to exponents at 15 digits, so no computed number is joined into a string
-- in any other way.

local function int(number)
  return string.format('%.0f', number)
end
