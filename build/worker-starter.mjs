#!/usr/bin/env node
/**
 * Starts the program of the worker package, on a machine that the package is for. An older Node could not read the
 * program, and would name a syntax error instead of the cure.
 */
import { readFileSync } from 'node:fs'

const EXIT_UNAVAILABLE = 69
const NODE_MIN = [20, 11]
const { platform, arch, version } = process
const { os, cpu } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8'))
const [major, minor] = process.versions.node.split('.').map(Number)
const isOld = major < NODE_MIN[0] || (major === NODE_MIN[0] && minor < NODE_MIN[1])

if (isOld) stop(`the worker needs Node ${NODE_MIN.join('.')} or newer, and this is ${version}`)
else if (!os.includes(platform) || !cpu.includes(arch))
  stop(`this package is for ${os}-${cpu}, and this machine is ${platform}-${arch}`)
else await import('./program.mjs')

function stop(message) {
  console.error(`switchyard: ${message}`)
  process.exitCode = EXIT_UNAVAILABLE
}
