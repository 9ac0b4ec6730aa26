/**
 * `mediaTokensIn` says how many tokens the images and files of a request cost at least.
 *
 * Vendors bill them by what they show, and not by their bytes: a plain image, or a file of blank pages, is short.
 */
import { isObject, type JsonObject, objectAt, textAt } from '../agents/json-lines.ts'

/** The dearest image of the vendors, and a document or a recording of some length. */
const IMAGE_TOKENS = 3_300
const FILE_TOKENS = 100_000

export function mediaTokensIn(body: JsonObject): number {
  let tokens = 0
  const left: unknown[] = [body]
  while (left.length > 0) {
    const next = left.pop()
    if (isObject(next)) tokens += tokensOf(next)
    if (typeof next === 'object' && next !== null) for (const inner of Object.values(next)) left.push(inner)
  }
  return tokens
}

function tokensOf(part: JsonObject): number {
  const media = ['inlineData', 'inline_data', 'fileData', 'file_data'].find((key) => isObject(part[key]))
  if (media !== undefined) {
    const inner = objectAt(part, media)
    return /^image\//i.test(textAt(inner, 'mimeType') ?? textAt(inner, 'mime_type') ?? '')
      ? IMAGE_TOKENS
      : FILE_TOKENS
  }
  const type = textAt(part, 'type') ?? ''
  if (/^(?:image|input_image|image_url|computer_screenshot)$/.test(type)) return IMAGE_TOKENS
  return /^(?:document|file|input_file|input_audio|audio|video|input_video)$/.test(type) ? FILE_TOKENS : 0
}
