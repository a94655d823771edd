#include "tessera/tools/op_functions/cpp_text.h"

#include <algorithm>
#include <cctype>

namespace tessera::op_functions {
namespace {

constexpr size_t kLineLength = 100;

/// Words that C++20 reserves and that a parameter or an operator could be called.
constexpr std::string_view kReserved[] = {
    "and",      "auto",     "bool",   "break",    "case",    "char",   "class",    "const",
    "continue", "default",  "delete", "do",       "double",  "else",   "enum",     "explicit",
    "export",   "extern",   "false",  "float",    "for",     "friend", "goto",     "if",
    "inline",   "int",      "long",   "mutable",  "new",     "not",    "operator", "or",
    "private",  "public",   "return", "short",    "signed",  "sizeof", "static",   "struct",
    "switch",   "template", "this",   "throw",    "true",    "try",    "union",    "unsigned",
    "using",    "virtual",  "void",   "volatile", "while",   "xor",    "register", "requires",
    "concept",  "compl",    "bitand", "bitor",    "typename"};

char Upper(char letter) {
  return static_cast<char>(std::toupper(static_cast<unsigned char>(letter)));
}

}  // namespace

std::vector<std::string> ChoicesOf(const ParameterInfo& parameter) {
  std::vector<std::string> choices;
  if (!parameter.type.starts_with("{")) return choices;
  std::string choice;
  for (const char letter : parameter.type.substr(1)) {
    if (letter == ',' || letter == '}') {
      choices.push_back(choice);
      choice.clear();
    } else if (letter != ' ') {
      choice += letter;
    }
  }
  return choices;
}

std::string CamelCase(std::string_view name) {
  std::string text;
  bool begins = true;
  for (const char letter : name) {
    if (letter == '_') {
      begins = true;
      continue;
    }
    text += begins ? Upper(letter) : letter;
    begins = false;
  }
  return text;
}

std::string Identifier(std::string name) {
  if (std::find(std::begin(kReserved), std::end(kReserved), name) != std::end(kReserved)) {
    name += "_";
  }
  return name;
}

std::string Quoted(std::string_view text) {
  std::string quoted = "\"";
  for (const char letter : text) {
    if (letter == '"' || letter == '\\') quoted += '\\';
    quoted += letter;
  }
  return quoted + "\"";
}

std::string Comment(std::string_view indent, std::string_view text) {
  std::string comment, line;
  const auto end_line = [&] {
    comment += std::string(indent) + "///" + (line.empty() ? "" : " ") + line + "\n";
    line.clear();
  };
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find_first_of(" \n", begin), text.size());
    const std::string_view word = text.substr(begin, end - begin);
    if (!line.empty() && indent.size() + 4 + line.size() + 1 + word.size() > kLineLength)
      end_line();
    line += (line.empty() ? "" : " ") + std::string(word);
    if (end < text.size() && text[end] == '\n') end_line();
    begin = end + 1;
  }
  end_line();
  return comment;
}

std::string List(const std::string& before, const std::vector<std::string>& items,
                 const std::string& after) {
  std::string text = before;
  size_t line = before.size();
  for (size_t i = 0; i < items.size(); ++i) {
    const std::string item = items[i] + (i + 1 < items.size() ? "," : after);
    if (line + 1 + item.size() > kLineLength) {
      text += "\n    " + item;
      line = 4 + item.size();
    } else {
      text += (i == 0 ? "" : " ") + item;
      line += 1 + item.size();
    }
  }
  return items.empty() ? text + after : text;
}

std::string Sentence(std::string text) {
  if (text.empty()) return text;
  // Names of arguments keep their case.
  const size_t word = text.find_first_of(" ,;:(=.");
  const bool is_name = word == 1 || (word != text.npos && text[word] == '(') ||
                       text.starts_with("data") || text.starts_with("lhs") ||
                       text.starts_with("rhs") || text.find('_') < word;
  if (!is_name) text[0] = Upper(text[0]);
  if (text.back() != '.') text += '.';
  return text;
}

}  // namespace tessera::op_functions
