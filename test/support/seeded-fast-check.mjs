/**
 * Replaces `fast-check` in tests: CI always tries the same cases, so a result depends only on the change.
 *
 * Elsewhere each run draws a new seed, and `SEED` repeats the seed that a failure printed. The import uses a path,
 * because Jest maps the package name to this file.
 */
import fc from '../../node_modules/fast-check/lib/fast-check.js'

const { SEED, CI } = process.env
const CI_SEED = 20_260_601
const seed = SEED === undefined ? CI && CI_SEED : Number(SEED)
if (seed) fc.configureGlobal({ seed })

export * from '../../node_modules/fast-check/lib/fast-check.js'
export default fc
