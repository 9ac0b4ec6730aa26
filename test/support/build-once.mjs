/** Before the first test file: the command as users have it, built from the sources as they are now. */
import { build, isBuilt } from '../../build/build.mjs'

export default async function built() {
  if (!isBuilt()) await build()
}
