/**
 * Keeps what V8 compiled for one test file, so that the next test file of the same Jest worker does not compile it again.
 *
 * Jest evaluates every module anew for every test file. Its own hundred files are scripts here, whose compiled functions
 * all contexts of a process share; the modules of the product and of the tests get V8's code cache. Code with `import()`
 * is compiled each time, because V8 keeps its callback with the compiled code.
 */
import vm from 'node:vm'

const { SourceTextModule, compileFunction, Script } = vm
const DYNAMIC_IMPORT = /\bimport\s*\(/

/** By identifier: a source with its code cache, or with undefined where it must be compiled each time. */
const modules = new Map()
const scripts = new Map()

/** Jest reads both from `node:vm` whenever it loads a file. */
export function shareCompiledCode() {
  vm.SourceTextModule = new Proxy(SourceTextModule, {
    construct: (_, [code, options]) => createModule(code, options),
  })
  vm.compileFunction = createFunction
}

function createModule(code, options) {
  const known = modules.get(options.identifier)
  if (known?.code !== code) return compileModule(code, options)
  try {
    return new SourceTextModule(code, { ...options, cachedData: known.cachedData })
  } catch (error) {
    // A test that changes a flag of V8 makes all older code invalid.
    if (error.code !== 'ERR_VM_MODULE_CACHED_DATA_REJECTED') throw error
    return compileModule(code, options)
  }
}

function compileModule(code, options) {
  const module = new SourceTextModule(code, options)
  const cachedData = DYNAMIC_IMPORT.test(code) ? undefined : module.createCachedData()
  modules.set(options.identifier, { code, cachedData })
  return module
}

function createFunction(code, parameters, options) {
  const known = scripts.get(options.filename)
  const { script } = known?.code === code ? known : compileScript(code, parameters, options)
  return script?.runInContext(options.parsingContext) ?? compileFunction(code, parameters, options)
}

function compileScript(code, parameters, { filename }) {
  const head = `(function (${parameters.join(', ')}) {`
  const wrapped = () => new Script(`${head}${code}\n})`, { filename, columnOffset: -head.length })
  const script = DYNAMIC_IMPORT.test(code) ? undefined : wrapped()
  const compiled = { code, script }
  scripts.set(filename, compiled)
  return compiled
}
