/** Builds the command from the current sources before the first test file, unless the build is up to date. */
import { build, isBuilt } from '../../build/build.mjs'

export default async function built() {
  if (!isBuilt()) await build()
}
