-- Exports  json_string
--
-- Text as a JSON string. The only JSON that Lua writes is evidence, and it is never read back here.

local JSON_ESCAPES = { ['"'] = '\\"', ['\\'] = '\\\\', ['\n'] = '\\n', ['\r'] = '\\r', ['\t'] = '\\t' }

local function json_string(text)
  if string.find(text, '[%c"\\]') then
    text = string.gsub(text, '[%c"\\]', function(character)
      return JSON_ESCAPES[character] or string.format('\\u%04x', string.byte(character))
    end)
  end
  return '"' .. text .. '"'
end
