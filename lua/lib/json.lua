-- Exports  json_string
--
-- Text as a JSON string. The only JSON that Lua writes is evidence, and it is never read back here. A batch repeats most
-- of its texts, so each is looked through once.

local JSON_ESCAPES = { ['"'] = '\\"', ['\\'] = '\\\\', ['\n'] = '\\n', ['\r'] = '\\r', ['\t'] = '\\t' }

local quoted_texts = {}

local function json_string(text)
  local quoted = quoted_texts[text]
  if quoted then
    return quoted
  end
  quoted = text
  if string.find(text, '[%c"\\]') then
    quoted = string.gsub(text, '[%c"\\]', function(character)
      return JSON_ESCAPES[character] or string.format('\\u%04x', string.byte(character))
    end)
  end
  quoted = '"' .. quoted .. '"'
  quoted_texts[text] = quoted
  return quoted
end
