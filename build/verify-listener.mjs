/**
 * `npm run listener:verify`: compares the binaries of the native listener with those of the upstream repository.
 *
 * The npm package is a copy that somebody else publishes. Its `source_commit` names the sources that the binaries were
 * built from; a release of the upstream repository has the same file, beside the binaries of its own build. Exit codes:
 * 0 for equal binaries, 1 for others, 69 where the upstream repository cannot be read or has no such release.
 *
 *     npm run listener:verify -- [--tag v20.56.0] [--tags ADDRESS] [--files ADDRESS]
 */
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { root } from './bundle.mjs'
import { readHashes } from './listener-binaries.mjs'

const UPSTREAM = 'uNetworking/uWebSockets.js'
/** Most releases are not ours, and each is one small request. */
const TAGS_TRIED_MAX = 100
const REQUEST_MS_MAX = 60_000
const EXIT_UNREACHABLE = 69

const { values: options } = parseArgs({
  options: {
    tag: { type: 'string' },
    tags: {
      type: 'string',
      default: `https://api.github.com/repos/${UPSTREAM}/tags?per_page=${TAGS_TRIED_MAX}`,
    },
    files: { type: 'string', default: `https://raw.githubusercontent.com/${UPSTREAM}` },
  },
})

try {
  process.exitCode = await verify()
} catch (error) {
  const cause = error.cause?.message ?? error.message
  console.error(
    `the upstream repository could not be read (${cause}); the hashes are checked at each build and start in any case`,
  )
  process.exitCode = EXIT_UNREACHABLE
}

async function verify() {
  const commit = readFileSync(join(root, 'node_modules/uWebSockets.js/source_commit'), 'utf8').trim()
  const tag = await findTag(commit)
  if (tag === undefined) {
    console.error(
      `no release of ${UPSTREAM} names the commit ${commit}; name one: npm run listener:verify -- --tag TAG`,
    )
    return EXIT_UNREACHABLE
  }
  let differing = 0
  for (const [name, expected] of Object.entries(await readHashes())) {
    const hash = createHash('sha256')
      .update(await download(`${tag}/${name}`))
      .digest('hex')
    if (hash !== expected) differing += 1
    console.log(`${hash === expected ? 'equal    ' : 'DIFFERENT'} ${name}`)
  }
  console.log(
    differing === 0
      ? `every binary is that of ${UPSTREAM} ${tag}`
      : `${differing} differ from ${UPSTREAM} ${tag}; SWITCHYARD_LISTENER=node serves without them`,
  )
  return differing === 0 ? 0 : 1
}

async function findTag(commit) {
  const names = options.tag === undefined ? await listTags() : [options.tag]
  for (const name of names)
    if ((await download(`${name}/source_commit`)).toString().trim() === commit) return name
  return undefined
}

async function listTags() {
  const tags = JSON.parse((await request(options.tags)).toString())
  return tags.map(({ name }) => name).slice(0, TAGS_TRIED_MAX)
}

function download(path) {
  return request(`${options.files}/${path}`)
}

/** A release without the file has an empty one. */
async function request(address) {
  const response = await fetch(address, { signal: AbortSignal.timeout(REQUEST_MS_MAX) })
  if (response.status === 404) return Buffer.alloc(0)
  if (!response.ok) throw new Error(`${address} answers ${response.status}`)
  return Buffer.from(await response.arrayBuffer())
}
