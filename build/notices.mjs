/** Collects the licences of the packages that a bundle contains, because most of them ask that their text goes with the code. */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { root } from './bundle.mjs'
import { packagesIn } from './sbom.mjs'

/** Native parts that no bundle shows. The terminal's add-on has the licence of the package that loads it. */
const NATIVE = ['lmdb', '@lydell/node-pty']
/** Sources of others inside these packages, with licences of their own. */
const INCLUDED = {
  lmdb: ['dependencies/lmdb/libraries/liblmdb/LICENSE', 'dependencies/lz4/lib/LICENSE'],
}

/** @param sources paths below the root; each package among them gets its notice */
export function formatNotices(sources) {
  const names = [...new Set([...packagesIn(sources), ...NATIVE])].sort()
  const notices = names.map(formatNotice)
  return `This package contains parts of other projects, with these licences.\n\n${notices.join('\n')}`
}

function formatNotice(name) {
  const folder = join(root, 'node_modules', name)
  const { version, license, author, repository } = JSON.parse(
    readFileSync(join(folder, 'package.json'), 'utf8'),
  )
  const own = readdirSync(folder).filter((file) => /^(licen[cs]e|notice|copying)/i.test(file))
  const files = [...own.sort(), ...(INCLUDED[name] ?? [])]
  const texts = files.map((file) => readFileSync(join(folder, file), 'utf8').trim())
  if (own.length === 0) texts.unshift(formatMissingLicence({ name, license, author, repository }))
  return `${'='.repeat(80)}\n${name} ${version} (${license})\n${'='.repeat(80)}\n${texts.join('\n\n----\n\n')}\n`
}

/** Some packages name their licence and leave out its text. */
function formatMissingLicence({ name, license, author, repository }) {
  if (license !== 'MIT')
    throw new Error(`${name} has no text of its licence ${license}; add it to build/notices.mjs`)
  const holder = author?.name ?? author ?? `the authors of ${name}`
  return `Copyright (c) ${holder}, ${repository?.url ?? repository}\n\n${MIT}`
}

const MIT = `Permission is hereby granted, free of charge, to any person obtaining a copy of this software and associated
documentation files (the "Software"), to deal in the Software without restriction, including without limitation the
rights to use, copy, modify, merge, publish, distribute, sublicense, and/or sell copies of the Software, and to permit
persons to whom the Software is furnished to do so, subject to the following conditions:

The above copyright notice and this permission notice shall be included in all copies or substantial portions of the
Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT LIMITED TO THE
WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR
COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR
OTHERWISE, ARISING FROM, OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.`
