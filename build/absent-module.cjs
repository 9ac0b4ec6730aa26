/**
 * Stands in for a module that a package loads at every start for what no program here uses: `build.mjs` names them.
 */
module.exports = {}
