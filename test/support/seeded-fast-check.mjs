/**
 * Replaces `fast-check` in tests: CI always tries the same cases, so a result depends only on the change.
 *
 * Elsewhere each run draws a new seed, and `SEED` repeats the seed that a failure printed. The import uses a path,
 * because Jest maps the package name to this file.
 */
import fc from '../../node_modules/fast-check/lib/fast-check.js'

const { SEED, CI } = process.env
const CI_SEED = 20_260_601
/** Code points from here on follow the halves of surrogate pairs, which stand for no character. */
const AFTER_SURROGATES = 0xe000
const SURROGATES = 0x800
const CODE_POINT_MAX = 0x10ffff
const seed = SEED === undefined ? CI && CI_SEED : Number(SEED)
if (seed) fc.configureGlobal({ seed })

/**
 * Draws the same code points as the unit `binary` of fast-check, which first builds a map of all 1.1 million of them:
 * a second of work in every test file.
 */
const codePoint = fc
  .integer({ min: 0, max: CODE_POINT_MAX - SURROGATES })
  .map((place) => String.fromCodePoint(pointAt(place)), placeOf)

function pointAt(place) {
  return place + SURROGATES < AFTER_SURROGATES ? place : place + SURROGATES
}

/** The reverse, by which fast-check shrinks a value that it did not draw; throws for any other value. */
function placeOf(text) {
  const point = typeof text === 'string' ? text.codePointAt(0) : undefined
  const place = point < AFTER_SURROGATES ? point : point - SURROGATES
  if (!(place >= 0) || String.fromCodePoint(pointAt(place)) !== text) throw new Error('not one code point')
  return place
}

/** `fc.string` with a quicker unit `binary`. */
export function string({ unit, ...rest } = {}) {
  return fc.string({ ...rest, unit: unit === 'binary' ? codePoint : unit })
}

export * from '../../node_modules/fast-check/lib/fast-check.js'
export default { ...fc, string }
