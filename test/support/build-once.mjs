/** The setup of a test run builds the command, unless the build is up to date, and chooses the place of temporary files. */
import { build, isBuilt } from '../../build/build.mjs'
import { useMemoryFolder } from './memory-folder.mjs'

export default async function built() {
  useMemoryFolder()
  if (!isBuilt()) await build()
}
